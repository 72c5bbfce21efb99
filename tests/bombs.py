"""Small files that ask for much: read each in a process that may not have it.

python -m tests.bombs NAME FOLDER [MB]
"""

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from unstale.cli.config import read_flags
from unstale.cli.main import parse
from unstale.data.load import load_dataset
from unstale.errors import InputError
from unstale.integrity import check_seal
from unstale.migration.stale import check_values
from unstale.migration.vectors import open_vectors
from unstale.rag.load import load_questions
from unstale.results import read_results

ALIASES = "a0: &a0 [x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
)


def limit(megabytes: int) -> None:
    """Let this process take so much memory beyond what it has, and no more."""
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    most = pages * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def sparse(path: Path, before: bytes, size: int = 600_000_000) -> None:
    """Write a file of one endless line that takes no room on the disk."""
    path.write_bytes(before)
    with path.open("r+b") as file:
        file.truncate(size)


def repeated(path: Path, text: str, rows: int = 4096) -> None:
    """Write a column in which one large text is stored once and meant in every row."""
    indices = pa.array([0] * rows, pa.int32())
    texts = pa.DictionaryArray.from_arrays(indices, pa.array([text]))
    table = pa.table({"query": texts, "positive": pa.array([f"x{i}" for i in range(rows)])})
    pq.write_table(table, path, compression="zstd", store_schema=False)


def wide(path: Path, width: int) -> None:
    """Write rows of vectors that one number is enough to describe."""
    lists = pa.array([[0.5] * width] * 4, pa.list_(pa.float32()))
    table = pa.table({"vector": pa.chunked_array([lists] * 100)})
    pq.write_table(table, path, compression="zstd")


def _write(folder: Path, name: str) -> tuple[Callable[[], object], bool]:
    """Write one bomb; return what reads it, and whether it must be refused."""
    beir = folder / "beir"
    (beir / "qrels").mkdir(parents=True)
    (beir / "corpus.jsonl").write_text('{"_id": "t", "text": "x"}\n')
    (beir / "queries.jsonl").write_text('{"_id": "q", "text": "x"}\n')
    (beir / "qrels" / "test.tsv").write_text("q\tt\t1\n")
    file = folder / "file"
    if name == "yaml":
        file.write_text(ALIASES)
        return lambda: read_flags(file), True
    if name == "flags":
        file.write_text(ALIASES)
        return lambda: parse(["train", "--config", str(file)]), True
    if name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        sparse(beir / name, b"x")
        return lambda: load_dataset(str(beir), progress=False), True
    if name in ("csv", "tsv"):
        file = folder / f"file.{name}"
        sparse(file, b'query,positive\na,"')
        return lambda: load_dataset(f"csv:{file}", progress=False), True
    if name == "csv rows":
        file = folder / "file.csv"
        with file.open("w") as out:
            out.write("query,positive\n")
            out.writelines('"' + "x" * 10_000_000 + '\n",' for _ in range(12))
        return lambda: load_dataset(f"csv:{file}", progress=False), True
    if name in ("array", "TriviaQA"):
        file = folder / "train.json"
        sparse(file, b'[{"query": "' if name == "array" else b'{"Data": [{"Question": "')
        read = load_dataset if name == "array" else load_questions
        where = f"jsonl:{file}" if name == "array" else str(folder)
        return lambda: read(where, progress=False), True
    if name in ("parquet", "parquet row"):
        file = folder / "file.parquet"
        repeated(file, "a" * (2_000_000 if name == "parquet" else 60_000_000))
        return lambda: load_dataset(f"parquet:{file}", progress=False), name == "parquet row"
    if name == "vectors":
        file = folder / "file.parquet"
        wide(file, 100_000)
        return lambda: check_values(open_vectors(file)), True
    sparse(folder / ("files.json" if name == "seal" else "results.json"), json.dumps({}).encode())
    return (lambda: check_seal(folder)) if name == "seal" else (lambda: read_results(folder)), True


BOMBS = ["yaml", "flags", "corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "csv", "tsv"]
BOMBS += ["csv rows", "array", "TriviaQA", "parquet", "parquet row", "vectors", "seal", "results"]


def main(name: str, folder: str, megabytes: str = "400") -> str:
    read, refused = _write(Path(folder), name)
    limit(int(megabytes))
    try:
        read()
    except InputError as error:
        return f"refused: {error}" if refused else f"WRONG: {error}"
    return "WRONG: it was read" if refused else "read"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
