"""What a study is: settings, a measurement, and perhaps a figure; it writes results.json."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, final

from experiments.studies.figures import need_matplotlib
from experiments.studies.settings import S, read_settings
from unstale.files import write_json

Draw = Callable[[dict[str, Any], Path], None]  # from results to figure.png


@final
@dataclass(frozen=True)
class Study(Generic[S]):
    """One of the studies that `unstale experiment NAME` runs.

    Args:
        name: What the command calls it.
        settings: Its dataclass in `studies/declared.py`.
        measure: Does the work in a folder, and returns the results.
        draw: Makes figure.png of the results.
    """

    name: str
    settings: type[S]
    measure: Callable[[Path, S], dict[str, Any]]
    draw: Draw | None = None

    def read(self, given: Mapping[str, Any]) -> S:
        """Make the settings of what was given; refuse what is unknown or of the wrong kind."""
        return read_settings(self.name, self.settings, given)

    def run(self, output: Path, settings: S) -> dict[str, Any]:
        """Measure; write results.json, and figure.png where there is something to see.

        `seconds` is the time of this call, unless the study itself counted it.
        """
        if self.draw is not None:
            need_matplotlib()
        began = time.perf_counter()
        found = self.measure(output, settings)
        took = {"seconds": time.perf_counter() - began}
        results = {"experiment": self.name, **took, **found}
        write_json(output / "results.json", results)
        if self.draw is not None:
            self.draw(results, output / "figure.png")
        return results
