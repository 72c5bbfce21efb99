"""What was read of the rows of a table, and which rows were left out, and why?"""

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import final

from unstale.data.dataset import RetrievalDataset
from unstale.data.gather import Example, Gatherer
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
_SHOWN = 5  # places shown for each kind of row that was left out
_PLACE = re.compile(r"(:|row )(\d+)$")
BLANK, REPEATED = "the row is blank", "the row repeats an earlier one"


@final
class Reading:
    """Count the rows of a table, and those that hold no example.

    Ordinary dirt (blank rows, empty cells, exact duplicates, rows with another number of cells
    than the header) is skipped, counted and shown. A table of which most is dirt is refused.

    Args:
        strict: Refuse the first row that would be skipped.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.rows = 0
        self.columns: Mapping[str, str] = {}  # role: the column that has it, as first found
        self.how: list[str] = []  # a separator or an encoding that is not the usual one
        self.skipped: dict[str, int] = {}
        self._strict = strict
        self._places: dict[str, list[str]] = {}
        self._seen: set[int] = set()

    def skip(self, why: str, where: str) -> None:
        """Leave out a row; its place in the file is kept while there are few."""
        if self._strict:
            raise InputError(f"{where}: {why}; without --strict such rows are skipped")
        self.skipped[why] = self.skipped.get(why, 0) + 1
        places = self._places.setdefault(why, [])
        if len(places) < _SHOWN:
            places.append(where)

    def repeats(self, example: Example) -> bool:
        """Tell whether an earlier row was exactly the same; 64 bits of each row are kept."""
        targets = (t.text for t in (*example.positives, *example.negatives))
        key = hash((example.id, example.query, *example.answers, len(example.positives), *targets))
        if key in self._seen:
            return True
        self._seen.add(key)
        return False

    def finish(self, gathered: Gatherer, name: str, place: str, *, tell: bool) -> RetrievalDataset:
        """Check what was read, make a dataset of it, and say in a few lines what it is."""
        self.check(place)
        dataset = replace(gathered.dataset(name), skipped=self.skipped)
        if tell:
            self.tell(place, dataset)
        return dataset

    def check(self, name: str) -> None:
        """Refuse a table of which more than half was left out, duplicates aside."""
        flawed = sum(count for why, count in self.skipped.items() if why not in (BLANK, REPEATED))
        if flawed and 2 * flawed > self.rows - self.skipped.get(BLANK, 0):
            rule = "the separator, the quotes or the columns are not what they seem"
            most = f"{flawed:,} of {self.rows:,} rows hold no example: {rule}"
            raise InputError("\n".join([f"{name}: {most}", *self._lines()]))

    def tell(self, name: str, dataset: RetrievalDataset) -> None:
        """Say in one line what was read, and in one line each what was skipped."""
        counts = f"{len(dataset.queries):,} queries, {len(dataset.targets):,} targets"
        taken = ", ".join(f"{role} from {column!r}" for role, column in self.columns.items())
        how = f" ({', '.join(self.how)})" if self.how else ""
        left = f"{sum(self.skipped.values()):,} skipped"
        said = f"{name}: {self.rows:,} rows{how}: {counts}, {left}; {taken}"
        _LOG.warning("\n".join([said, *self._lines()]))

    def _lines(self) -> list[str]:
        lines = []
        for why, places in self._places.items():
            found = [_PLACE.search(place) for place in places]
            word = "lines" if found[0] and found[0][1] == ":" else "rows"
            numbers = ", ".join(match[2] for match in found if match)
            more = ", ..." if self.skipped[why] > len(places) else ""
            lines.append(f"  {self.skipped[why]:,} skipped, {why}: {word} {numbers}{more}")
        return lines
