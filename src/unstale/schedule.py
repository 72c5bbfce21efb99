"""When does a strategy refresh? After which completed steps, and how often in a run."""

import re
from typing import final

from unstale.errors import InputError

_RANGE = re.compile(r"(\d+)-(\d+):(\d+)")


@final
class Schedule:
    """Tell after which completed steps to refresh; the embedding before step 1 is not one.

    Example:
        >>> paper = Schedule.evenly(80, steps=40_000)
        >>> [s for s in range(1, 2000) if paper.due(s)], paper.count(40_000)
        ([500, 1000, 1500], 80)
        >>> atlas = Schedule.parse("0-1000:500,1000-10000:3000")
        >>> [s for s in range(1, 10_001) if atlas.due(s)] == [500, 1000, 4000, 7000, 10000]
        True
    """

    def __init__(self, ranges: list[tuple[int, int, int, int]]) -> None:
        self._ranges = ranges  # (start, end, refreshes, in how many steps)

    @classmethod
    def evenly(cls, refreshes: int, steps: int) -> "Schedule":
        """Spread some refreshes over a run, the last after its last step."""
        if refreshes < 0:
            raise InputError(f"cannot refresh {refreshes} times")
        return cls([(0, steps, min(refreshes, steps), steps)])

    @classmethod
    def every(cls, interval: int, steps: int) -> "Schedule":
        """Refresh whenever another `interval` steps of a run are completed.

        Example:
            >>> [s for s in range(1, 11) if Schedule.every(4, steps=10).due(s)] == [4, 8]
            True
        """
        return cls([(0, steps, 1, interval)])

    @classmethod
    def inside(cls, refreshes: int, steps: int) -> "Schedule":
        """Cut a run into equal parts and refresh between them: 1 is halfway."""
        places = [round(steps * (i + 1) / (refreshes + 1)) for i in range(refreshes)]
        return cls([(place - 1, place, 1, 1) for place in places])

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Read Atlas's grammar, START-END:EVERY, as in `0-1000:500,1000-10000:2000`."""
        ranges = []
        for part in text.split(","):
            match = _RANGE.fullmatch(part.strip())
            start, end, every = map(int, match.groups()) if match else (0, 0, 0)
            if every < 1 or end <= start:
                rule = "expected START-END:EVERY,... with START < END and EVERY >= 1"
                raise InputError(f"bad refresh schedule {part.strip()!r}: {rule}")
            ranges.append((start, end, 1, every))
        return cls(ranges)

    def due(self, step: int) -> bool:
        """Tell whether to refresh after `step` completed steps."""
        return any(
            start < step <= end
            and (step - start) * refreshes // per > (step - 1 - start) * refreshes // per
            for start, end, refreshes, per in self._ranges
        )

    def count(self, steps: int) -> int:
        """Count the refreshes of a run."""
        return sum(self.due(step) for step in range(1, steps + 1))
