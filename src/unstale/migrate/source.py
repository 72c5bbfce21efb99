"""What old vectors must be able to do, whatever file they are in."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

CHUNK = 16_384  # rows read at once


class Source(ABC):
    """Stale vectors on disk, by row."""

    format: str
    path: Path
    rows: int
    dim: int
    dtype: np.dtype[Any]

    @abstractmethod
    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Float[ndarray, "n d"]]]:
        """Yield `(first row, float32 vectors)` over all rows."""

    @abstractmethod
    def take(self, rows: Int[ndarray, " n"]) -> Float[ndarray, "n d"]:
        """Return the vectors of some rows, as float32."""
