"""How long did a run take, in all the sessions that it took?"""

import time
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar, final

P = ParamSpec("P")
R = TypeVar("R")


@final
class Stopwatch:
    """Time a run and its parts; a checkpoint carries the seconds on to the next session.

    What a killed session did after its last checkpoint is done again, and counts once.
    """

    def __init__(self) -> None:
        self._parts: dict[str, float] = {}
        self._earlier = 0.0
        self._began = time.perf_counter()

    def timed(self, part: str, work: Callable[P, R]) -> Callable[P, R]:
        """Return `work`, which from now on adds its seconds to a part.

        Example:
            >>> clock = Stopwatch()
            >>> clock.timed("sum", sum)([1, 2])
            3
            >>> sorted(clock.read())
            ['sum', 'total']
        """

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            began = time.perf_counter()
            try:
                return work(*args, **kwargs)
            finally:
                self._add(part, time.perf_counter() - began)

        return call

    def read(self) -> dict[str, float]:
        """Return the seconds of each part and the total, over all sessions so far."""
        return {**self._parts, "total": self._earlier + time.perf_counter() - self._began}

    def go_on(self, earlier: Mapping[str, float]) -> None:
        """Add what earlier sessions read."""
        for part, seconds in earlier.items():
            if part == "total":
                self._earlier += seconds
            else:
                self._add(part, seconds)

    def _add(self, part: str, seconds: float) -> None:
        self._parts[part] = self._parts.get(part, 0.0) + seconds
