"""One index of both models: each vector is the old one and the new one, end to end.

The product of two such vectors is the old model's score and the new one's, weighed. This file needs
numpy alone: an application imports it without torch.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from unstale.budget import read_object
from unstale.errors import InputError
from unstale.files import write_json

FILE = "joined.json"


@final
@dataclass(frozen=True)
class JoinedQueries:
    """Join a query of the old model and of the new one, to search an index of joined vectors.

    Args:
        weight: The old model's part of the score, from 0 to 1.
        scale: By what new scores are multiplied so that they vary as old scores do.

    Example:
        >>> join = JoinedQueries(weight=0.5, scale=1.0)
        >>> join(np.array([1.0, 0.0]), np.array([0.0, 1.0, 0.0])).astype("d").round(3).tolist()
        [0.707, 0.0, 0.0, 0.707, 0.0]
    """

    weight: float
    scale: float

    def parts(self) -> tuple[float, float]:
        """Return the lengths of both parts, so that unit vectors give a unit vector."""
        old, new = self.weight, (1 - self.weight) * self.scale
        return (old / (old + new)) ** 0.5, (new / (old + new)) ** 0.5

    def __call__(
        self, old: Float[ndarray, "*q d"], new: Float[ndarray, "*q e"]
    ) -> Float[ndarray, "*q w"]:
        """Return the vectors to search with, or to add to the index."""
        first, second = self.parts()
        both = [first * np.asarray(old, np.float64), second * np.asarray(new, np.float64)]
        return np.concatenate(both, axis=-1).astype(np.float32)

    def save(self, folder: Path | str) -> Path:
        """Write `joined.json` into a folder, and return its path."""
        path = Path(folder) / FILE
        write_json(path, asdict(self))
        return path

    @classmethod
    def load(cls, folder: Path | str) -> "JoinedQueries":
        """Read what `save` wrote."""
        path = Path(folder) / FILE
        if not path.is_file():
            raise InputError(f"{folder} has no {FILE}: its index was not made with --fuse")
        found = read_object(path)
        try:
            return cls(float(found["weight"]), float(found["scale"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} does not say how queries are joined ({error!r})") from None
