"""Correct vectors from disk to disk: memory, and speed as a part of the machine's sgemm peak.

    python benchmarks/correct_vectors.py --rows 5000000

Both speeds are per second of processor time in this one process, so that other work on the machine
cancels out. The vectors are synthetic, float16, and written by streaming.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from unstale.corrector.closed_form import Affine
from unstale.corrector.projected import ProjectedCorrector
from unstale.migration.index import Known, write_index
from unstale.migration.vectors import open_vectors


def write_synthetic(path: Path, rows: int, dim: int) -> None:
    block = np.random.default_rng(0).standard_normal((10_000, dim), dtype=np.float32)
    block = (block / np.linalg.norm(block, axis=1, keepdims=True)).astype(np.float16)
    with path.open("wb") as file:
        header = {"descr": "<f2", "fortran_order": False, "shape": (rows, dim)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, rows, len(block)):
            file.write(np.roll(block, start, axis=1)[: rows - start].tobytes())


def sgemm(dim: int, hidden: int, seconds: float = 3.0) -> float:
    """Return FLOP per processor second of the corrector's own matrix product."""
    a, b = torch.randn(8192, dim), torch.randn(dim, hidden)
    out = torch.empty(8192, hidden)
    torch.mm(a, b, out=out)
    began, done = time.process_time(), 0
    while time.process_time() - began < seconds:
        torch.mm(a, b, out=out)
        done += 2 * 8192 * dim * hidden
    return done / (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--folder", type=Path, default=None, help="where to write; a temporary one")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        path = Path(name) / "old.npy"
        write_synthetic(path, chosen.rows, chosen.dim)
        torch.manual_seed(0)
        start = Affine(torch.eye(chosen.dim), torch.zeros(chosen.dim))
        corrector = ProjectedCorrector(start, (chosen.hidden,), unit=True)
        torch.nn.init.normal_(corrector.layers[-1].weight, std=0.01)
        none = Known(torch.zeros(0, dtype=torch.long), torch.zeros(0, chosen.dim))
        before = sgemm(chosen.dim, chosen.hidden)
        wall, used = time.perf_counter(), time.process_time()
        write_index(open_vectors(path), corrector.eval(), none, Path(name) / "out", {})
        wall, used = time.perf_counter() - wall, time.process_time() - used
        peak = (before + sgemm(chosen.dim, chosen.hidden)) / 2
    flop = chosen.rows * 2 * (chosen.dim**2 + 2 * chosen.dim * chosen.hidden)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"rows {chosen.rows:,}, {chosen.dim} dimensions, {chosen.hidden} hidden, float16")
    print(f"wall {wall:.0f} s, processor {used:.0f} s, {chosen.rows / used:,.0f} rows a second")
    share = flop / used / peak
    print(f"corrected {flop / used / 1e9:.1f} GFLOP/s, sgemm {peak / 1e9:.1f}: {share:.2f}")
    print(f"peak memory of the process {memory:.2f} GiB")


if __name__ == "__main__":
    main()
