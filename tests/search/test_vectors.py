"""Stored vectors come back within their precision, whatever way they are read or written."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.stored import Stored
from unstale.corrector.network import Corrector
from unstale.errors import InputError
from unstale.search.exact import Exact
from unstale.search.rolling import Rolling
from unstale.search.vectors import on_device
from unstale.settings import Precision

# float16 keeps 11 bits. int8 rounds by half a step, and 127 steps make the row's largest entry.
ERRORS: dict[Precision, float] = {"float32": 0.0, "float16": 2.0**-11, "int8": 0.5 / 127}


@pytest.mark.parametrize("precision", list(ERRORS))
def test_a_row_comes_back_within_the_precision(precision: Precision) -> None:
    torch.manual_seed(0)
    vectors = torch.randn(50, 7) * torch.logspace(-3, 3, 50)[:, None]
    vectors[3] = 0.0
    stored = Stored.of(vectors, precision)
    bound = ERRORS[precision] * 1.001 * vectors.abs().amax(dim=1, keepdim=True)
    rows = torch.tensor([49, 0, 3, 3, 17])
    assert ((stored[rows] - vectors[rows]).abs() <= bound[rows]).all()
    assert torch.equal(stored.between(10, 20), stored[torch.arange(10, 20)])
    other = Stored.empty(50, 7, precision)
    order = torch.randperm(50)
    other.write(order, vectors[order])
    assert torch.equal(other.between(0, 50), stored.between(0, 50))


def test_int8_takes_a_quarter_of_the_memory() -> None:
    stored = Stored.empty(100, 384, "int8")
    assert stored.data.nbytes + stored.scales.nbytes == 100 * (384 + 4)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises((InputError, TypeError), match="int4"):
        Stored.empty(1, 1, "int4")  # type: ignore[arg-type]


@settings(max_examples=60)
@given(n=st.integers(1, 40), size=st.integers(1, 50), shards=st.integers(1, 4), data=st.data())
def test_a_span_is_the_rows_between_its_ends(
    n: int, size: int, shards: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    vectors = torch.arange(n).float()[:, None]
    buffer = TargetBuffer(list(vectors.tensor_split(min(shards, n))))
    for source in (buffer, Stored.of(vectors, "float32")):
        chunks = list(on_device(source.chunks(size, start, stop), torch.device("cpu")))
        assert all(int(chunk[0, 0]) == first for first, chunk in chunks)
        assert all(len(chunk) <= size for _, chunk in chunks)
        rows = [int(x) for _, chunk in chunks for x in chunk[:, 0]]
        assert rows == list(range(start, stop))


class Watched:
    """Serve a buffer, and note how much memory of its own the process has at each chunk."""

    def __init__(self, buffer: TargetBuffer) -> None:
        self.buffer = buffer
        self.device = buffer.device
        self.dim = buffer.dim
        self.own: list[int] = []

    def __len__(self) -> int:
        return len(self.buffer)

    def __getitem__(self, rows: torch.Tensor) -> torch.Tensor:
        return self.buffer[rows]

    def chunks(
        self, size: int, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, torch.Tensor]]:
        for chunk in self.buffer.chunks(size, start, stop):
            yield chunk
            self.own.append(own_memory())


def own_memory() -> int:
    """Return the bytes of the process that no file backs."""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in status if line.startswith("RssAnon")).split()[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("mode", ["exact", "rolling"])
def test_a_buffer_on_disk_is_scanned_in_bounded_memory(mode: str, tmp_path: Path) -> None:
    shape = (400_000, 32)  # 51 MB
    np.memmap(tmp_path / "rows", np.float32, "w+", shape=shape)[::1000] = 1.0
    rows = torch.from_numpy(np.memmap(tmp_path / "rows", np.float32, "c", shape=shape))
    watched = Watched(TargetBuffer([rows]))
    corrector = Corrector(32, (64,)).requires_grad_(False)
    search = Exact(watched, corrector) if mode == "exact" else Rolling(watched, corrector)
    queries = torch.ones(4, 32)
    search.top_k(queries, 8)  # what is allocated once, is
    before = own_memory()
    watched.own.clear()
    found = search.top_k(queries, 8)
    # A chunk is at most 16,384 rows of 32 + 64 + 4 floats, 6.6 MB, and lives beside the next.
    assert max(watched.own) - before < 20e6
    assert len(watched.own) >= 20
    assert (found.rows % 1000 == 0).all()
