"""No input, however bad, ends in a traceback of ours or in memory that is not given back."""

import logging
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

import psutil
import pytest
from tests.bombs import limit
from tests.fuzz import cases
from tqdm import tqdm

from unstale.data.formats.beir import read_beir
from unstale.errors import InputError

FEW, MANY = 80, int(os.environ.get("FUZZ_INPUTS", "4600"))  # for each of 27 readers
LIMIT = 600  # megabytes that a process of `make fuzz` may take beyond what it has
NAMES = ["beir", "manifest", "unguarded manifest", "shard", "seal", "config", "flags", "results"]
NAMES += ["answering", "list", "cell", "picked", "parquet vectors"]
NAMES += ["npy", "safetensors", "msmarco", "hf", "dpr", "fid", "tevatron", "tevatron-inline"]
NAMES += ["flagembedding", "csv", "jsonl", "parquet", "detected", "questions"]


def run(name: str, tmp_path: Path, count: int, seed: int) -> None:
    case = cases(tmp_path)[name]
    case.read(case.folder)  # unspoilt, it is good
    logging.disable(logging.CRITICAL)  # pytest keeps every record
    process, held, refused = psutil.Process(), 0, 0
    for i in tqdm(range(count), desc=name, disable=count < 1000):
        rng = random.Random(f"{name} {seed} {i}")  # an input that fails can be made again
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                refused += case.run(rng)
        except Exception as error:
            raise AssertionError(f"{name}, input {i} of seed {seed}: {error!r}") from error
        if i == count // 5:
            held = process.memory_info().rss
    logging.disable(logging.NOTSET)
    assert refused > count // 10  # most mutations harm
    grown = process.memory_info().rss - held
    assert grown < 64 * 2**20, f"{grown / 2**20:.0f} MB more after {count} inputs"
    print(f"{name}: {count} inputs, {refused} refused, {grown / 2**20:.0f} MB more")


def test_every_reader_is_listed(tmp_path: Path) -> None:
    assert list(cases(tmp_path)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_few_bad_inputs(name: str, tmp_path: Path) -> None:
    run(name, tmp_path, FEW, seed=0)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", NAMES)
def test_many_bad_inputs(name: str, tmp_path: Path) -> None:
    """In a process of its own, with a limit on its memory."""
    words = [sys.executable, "-m", "tests.test_fuzz", name, str(tmp_path), str(MANY)]
    few = {"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(words, env=os.environ | few, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)


def test_a_huge_line_stays_within_memory(tmp_path: Path) -> None:
    cases(tmp_path)
    corpus = tmp_path / "beir" / "corpus.jsonl"
    before = psutil.Process().memory_info().rss
    corpus.write_bytes(b'{"_id": "' + b"x" * 50_000_000)  # a line that never ends
    with pytest.raises(InputError, match=r"corpus\.jsonl:1"):
        read_beir(tmp_path / "beir", progress=False)
    assert psutil.Process().memory_info().rss - before < 400 * 2**20


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_million_ids_stay_within_memory(tmp_path: Path) -> None:
    cases(tmp_path)
    with (tmp_path / "beir" / "corpus.jsonl").open("a") as corpus:
        corpus.writelines(f'{{"_id": "n{i}", "text": "number {i}"}}\n' for i in range(1_000_000))
    before = psutil.Process().memory_info().rss
    dataset = read_beir(tmp_path / "beir", progress=False)
    assert len(dataset.targets) == 1_000_004
    assert psutil.Process().memory_info().rss - before < 400 * 2**20


if __name__ == "__main__":
    limit(LIMIT)
    run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), seed=1)
