"""Vectors in less memory: float32, float16, or int8 with a scale for each row."""

from collections.abc import Iterator
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.errors import InputError
from unstale.settings import Precision

DTYPES: dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "int8": torch.int8,
}


Chunks = Iterator[tuple[int, Float[Tensor, "n d"]]]  # (first row, vectors)


@final
class Stored:
    """Hold vectors at a precision, to be written and read back.

    On a CPU a float16 or int8 scan is slower than a float32 one, by the conversion; what it saves
    is memory. int8 keeps 127 steps to each row's largest entry.

    Example:
        >>> stored = Stored.of(torch.tensor([[1.0, -0.5], [0.02, 0.0]]), "int8")
        >>> [round(x, 3) for x in stored[torch.tensor([1, 0])].flatten().tolist()]
        [0.02, 0.0, 1.0, -0.504]
    """

    def __init__(self, data: Tensor, scales: Tensor | None = None) -> None:
        """Take tensors as they are, without a copy: those of a file, or another's storage."""
        if data.dtype == torch.int8 and scales is None:
            raise InputError("int8 vectors need a scale for each row")
        self.data = data
        self.scales = torch.empty(0, 1, device=data.device) if scales is None else scales
        self.tensors = self.data, self.scales
        self.dim = int(data.shape[1])
        self.precision: Precision = next(p for p, dtype in DTYPES.items() if dtype == data.dtype)
        self.device = data.device
        self.nbytes = self.data.nbytes + self.scales.nbytes

    @classmethod
    def empty(
        cls, targets: int, dim: int, precision: Precision, device: torch.device | str = "cpu"
    ) -> "Stored":
        """Make room for vectors."""
        if precision not in DTYPES:
            raise InputError(f"vectors are stored as {', '.join(DTYPES)}, not {precision!r}")
        # Not zeros: memory that is never written is then never taken.
        data = torch.empty(targets, dim, dtype=DTYPES[precision], device=device)
        return cls(data, torch.empty(targets if precision == "int8" else 0, 1, device=device))

    @classmethod
    def of(cls, vectors: Float[Tensor, "n d"], precision: Precision) -> "Stored":
        """Store a tensor."""
        stored = cls.empty(len(vectors), vectors.shape[1], precision, vectors.device)
        stored.write(slice(len(vectors)), vectors)
        return stored

    def __len__(self) -> int:
        return len(self.data)

    def named(self) -> dict[str, Tensor]:
        """Return the tensors by the names that they have in a file."""
        return {"vectors": self.data} | ({"scales": self.scales} if len(self.scales) else {})

    def write(self, rows: slice | Int[Tensor, " n"], vectors: Float[Tensor, "n d"]) -> None:
        """Replace some rows."""
        where = rows if isinstance(rows, slice) else rows.to(self.device)
        vectors = vectors.to(self.device).float()
        if self.data.dtype == torch.int8:
            scales = vectors.abs().amax(dim=1, keepdim=True).clamp(min=1e-30) / 127
            self.scales[where] = scales
            vectors = (vectors / scales).round()
        stored = vectors.to(self.data.dtype)
        if self.data.dtype == torch.float16 and not torch.isfinite(stored).all():
            largest = f"an entry of {vectors.abs().max():.3g} is beyond 65504"
            raise InputError(f"float16 cannot hold these vectors: {largest}; use float32 or int8")
        self.data[where] = stored

    def __getitem__(self, rows: Int[Tensor, " n"], /) -> Float[Tensor, "n d"]:
        """Return some rows, on the device of `rows`."""
        return self._get(rows.to(self.device)).to(rows.device)

    def between(self, start: int, stop: int) -> Float[Tensor, "n d"]:
        """Return the rows from `start` up to `stop`; a view, if stored as float32."""
        return self._get(slice(start, stop))

    def _get(self, where: slice | Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
        vectors = self.data[where].float()
        return vectors.mul_(self.scales[where]) if self.data.dtype == torch.int8 else vectors

    def chunks(self, size: int, start: int = 0, stop: int | None = None) -> Chunks:
        """Yield `(first row, vectors)` from `start` up to `stop`, at most `size` at a time."""
        stop = len(self) if stop is None else stop
        for first in range(start, stop, size):
            yield first, self.between(first, min(first + size, stop))
