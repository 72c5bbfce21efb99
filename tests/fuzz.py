"""Bad input by the thousand: valid files, mutated, for every reader of what users hand us."""

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.numpy import save_file as numpy_save
from safetensors.torch import save_file

from unstale.buffer.buffer import TargetBuffer, read_manifest, write_manifest
from unstale.cli.config import read_config
from unstale.cli.finished import read_answering
from unstale.cli.folders import _check_ours
from unstale.cli.main import parse
from unstale.data.formats import FORMATS, find_format
from unstale.data.formats.beir import read_beir
from unstale.data.load import load_dataset
from unstale.errors import InputError
from unstale.integrity import check_seal, seal, sha256
from unstale.migration.embed import read_picked
from unstale.migration.stale import check_values
from unstale.migration.vectors import open_vectors
from unstale.rag.load import load_questions
from unstale.results import RunResult, read_results
from unstale.training.cells import Cell, run_cells
from unstale.training.identity import FORMAT
from unstale.written import LIST, keep_list, note

NASTY = [
    b"\x00", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\\ud800", b"\xe2\x80\xae", b"\x1b[2J",
    b"NaN", b"-Infinity", b"1e999", b"-1", b"null", b"true", b"[]", b"{}", b'""', b"0.5",
    b"9" * 40, b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"\r", b"\n\n", b"\t", b"\\", b'"',
    b"&a [*a]",
    b"&b [x,x]\nc: &c [*b,*b,*b]\nd: [*c,*c,*c]",
    b"!!python/object/apply:os.system [x]", b"2001-99-99", b": :", b"../../x",
    b"!!bool x", b"!!int ''", b"!!timestamp x", b"!!binary x", b"!!float x", b"9:9", b"? [x]\n:",
    b"/etc/passwd", b"\xef\xbb\xbf", b"a" * 70_000,
]  # fmt: skip


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change a valid file in one to four ways."""
    for _ in range(rng.randint(1, 4)):
        a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        how = rng.randrange(7)
        if how == 0 and data:
            place = rng.randrange(len(data))
            data = data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        elif how == 1:
            data = data[:a]
        elif how == 2:
            data = data[:a] + data[b:]
        elif how == 3:
            data = data[:a] + data[a:b] * 2 + data[b:]
        elif how == 4:
            data = data[:a] + rng.choice(NASTY) + data[a:]
        elif how == 5:
            data = data[:a] + rng.choice(NASTY) + data[b:]
        else:
            data = data[:a] + rng.randbytes(rng.randrange(1, 9)) + data[a:]
    return data


class Case:
    """A reader, and valid files of which one is spoilt at a time."""

    def __init__(self, folder: Path, spoil: list[str], read: Callable[[Path], object]) -> None:
        self.folder = folder
        self.read = read
        self.files = {folder / name: (folder / name).read_bytes() for name in spoil}

    def run(self, rng: random.Random) -> bool:
        """Read one spoilt folder; tell whether it was refused. Anything but InputError escapes."""
        path = rng.choice(list(self.files))
        spoilt = mutate(self.files[path], rng)
        path.write_bytes(spoilt)
        try:
            self.read(self.folder)
        except InputError:
            return True
        finally:
            path.write_bytes(self.files[path])
        return False


def cases(top: Path) -> dict[str, Case]:
    """Build a valid example for each reader."""
    return {**_own(top), **_foreign(top)}


def _own(top: Path) -> dict[str, Case]:
    """Build what unstale writes and reads: a BEIR folder, buffers, runs, vectors."""
    beir = top / "beir"
    (beir / "qrels").mkdir(parents=True)
    corpus = [{"_id": f"t{i}", "title": "A", "text": f"text {i}"} for i in range(4)]
    queries = [{"_id": f"q{i}", "text": f"ask {i}", "metadata": {"answers": ["x"]}} for i in (0, 1)]
    for name, records in (("corpus", corpus), ("queries", queries)):
        text = "".join(json.dumps(r) + "\n" for r in records)
        (beir / f"{name}.jsonl").write_text(text)
    (beir / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq0\tt1\t1\nq1\tt2\t2\n")

    buffer = top / "buffer"
    buffer.mkdir()
    save_file({"vectors": torch.ones(4, 3)}, buffer / "shard-00000.safetensors")
    digest = sha256(buffer / "shard-00000.safetensors")
    shards = [{"file": "shard-00000.safetensors", "rows": 4, "sha256": digest}]
    manifest = {"format": 1, "fingerprint": {"targets": 4}, "dim": 3, "dtype": "float32"}
    write_manifest(buffer, manifest | {"shards": shards})

    unsealed = top / "unsealed"  # sealed anew after each mutation: nothing guards its fields
    unsealed.mkdir()
    save_file({"vectors": torch.ones(4, 3)}, unsealed / "shard-00000.safetensors")
    (unsealed / "manifest.json").write_text(json.dumps(manifest | {"shards": shards}))

    run = top / "run"
    run.mkdir()
    (run / "config.yaml").write_text("# unstale train\ndata: x\nsteps: 3\ntrainer: {a: [1, 2]}\n")
    (run / "results.json").write_text(json.dumps({"data": {}, "runs": [{"seed": 0}]}))
    seal(run)

    (run / "answering.json").write_text(
        json.dumps({"k": 4, "max_length": 9, "answer_length": 3, "scale": 1.0, "fusion": "fid"})
    )
    keep_list(run)
    np.savez(run / "test.npz", **{"recall@1": np.ones(3)})
    result = RunResult(strategy="stale", metrics={"recall@1": 1.0}, identity={"format": FORMAT})
    (run / "cell.json").write_text(json.dumps(result.to_json()))
    numpy_save({"rows": np.arange(3), "apart": np.arange(1)}, run / "picked.safetensors")

    note(path for path in run.iterdir() if path.name != LIST)

    vectors = top / "vectors"
    vectors.mkdir()
    lists = pa.array([[1.0, 2.0, 3.0]] * 4, pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": ["a", "b", "c", "d"], "vector": lists}), vectors / "v.parquet")
    np.save(vectors / "v.npy", np.ones((4, 3), np.float32))
    save_file({"vectors": torch.ones(4, 3)}, vectors / "v.safetensors")
    return {
        "beir": Case(
            beir,
            ["corpus.jsonl", "queries.jsonl", "qrels/train.tsv"],
            lambda folder: read_beir(folder, progress=False),
        ),
        "manifest": Case(buffer, ["manifest.json"], read_manifest),
        "unguarded manifest": Case(unsealed, ["manifest.json"], _open_sealed),
        "shard": Case(buffer, ["shard-00000.safetensors"], TargetBuffer.open),
        "seal": Case(run, ["files.json", "results.json"], check_seal),
        "config": Case(run, ["config.yaml"], read_config),
        "flags": Case(run, ["config.yaml"], _parse_flags),
        "results": Case(run, ["results.json"], read_results),
        "answering": Case(run, ["answering.json"], lambda f: read_answering(f / "answering.json")),
        "list": Case(run, [LIST], _check_ours),
        "cell": Case(run, ["cell.json", "test.npz"], _read_cell),
        "picked": Case(
            run, ["picked.safetensors"], lambda f: read_picked(f / "picked.safetensors", 4)
        ),
        "parquet vectors": Case(
            vectors, ["v.parquet"], lambda f: check_values(open_vectors(f / "v.parquet"))
        ),
        "npy": Case(vectors, ["v.npy"], lambda f: check_values(open_vectors(f / "v.npy"))),
        "safetensors": Case(
            vectors, ["v.safetensors"], lambda f: check_values(open_vectors(f / "v.safetensors"))
        ),
    }


def _read_cell(folder: Path) -> None:
    def train(*_: object) -> RunResult:  # where a file of the cell is missing
        raise InputError("trained again")

    with contextlib.redirect_stdout(None):
        list(run_cells([Cell(folder, "a cell", train, {"format": FORMAT})]))


def _open_sealed(folder: Path) -> None:
    """Give a buffer's manifest the checksum of what it holds now, then open the buffer."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
    except (ValueError, RecursionError):
        manifest = None
    if isinstance(manifest, dict):
        write_manifest(folder, manifest)
    TargetBuffer.open(folder)


def _parse_flags(folder: Path) -> None:
    """Read a config file as the command line does."""
    parse(["train", "--config", str(folder / "config.yaml")])


def _foreign(top: Path) -> dict[str, Case]:
    """Build what others write: every format of data, by its own writer, and question files."""
    dataset = read_beir(top / "beir", progress=False)
    found: dict[str, Case] = {}
    for name in FORMATS:
        write = find_format(name).write
        if write is None or name == "beir":
            continue
        folder = top / "formats" / name
        folder.mkdir(parents=True)
        write(dataset, folder)
        files = [str(f.relative_to(folder)) for f in sorted(folder.rglob("*")) if f.is_file()]
        found[name] = Case(
            folder, files, lambda f, name=name: load_dataset(f"{name}:{f}", progress=False)
        )
    everything = top / "formats" / "tevatron-inline"  # of which the format is to be found out
    files = [str(f.relative_to(everything)) for f in everything.iterdir()]
    found["detected"] = Case(everything, files, lambda f: load_dataset(str(f), progress=False))
    found["questions"] = _questions(top / "questions")
    return found


def _questions(folder: Path) -> Case:
    """Write a split each as NQ-open, TriviaQA and HotPotQA do."""
    folder.mkdir()
    context = [["Nile", ["A river.", " It is long."]], ["Alps", ["Old."]]]
    facts = [["Nile", 0]]
    open_ = {"id": 1, "question": "which?", "answer": ["Nile", "the Nile"]}
    alias = {"Value": "Nile", "Aliases": ["the Nile"]}
    trivia = {"Data": [{"QuestionId": "t1", "Question": "which one?", "Answer": alias}]}
    hotpot = {"_id": "h1", "question": "how old?", "answer": "old", "context": context}
    (folder / "train.jsonl").write_text(json.dumps(open_) + "\n")
    (folder / "dev.json").write_text(json.dumps(trivia))
    (folder / "test.json").write_text(json.dumps([hotpot | {"supporting_facts": facts}]))
    files = ["train.jsonl", "dev.json", "test.json"]
    return Case(folder, files, lambda f: load_questions(str(f), progress=False))
