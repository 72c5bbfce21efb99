"""How fast is each format read, in how much memory?

    python benchmarks/formats.py --lines 1000000
    python benchmarks/formats.py --formats csv,dpr --words 200

Writes a synthetic set, with as many queries as lines and a target for each, in every format into a
temporary folder, and reads it back in a process of its own: rows (queries, targets and judgements)
a second of processor time, and the most memory that the process took beyond what its imports took.
Memory that the system may drop, the pages of mapped files, is not counted; VmHWM counts all.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from unstale.data.dataset import Qrels, RetrievalDataset
from unstale.data.formats import FORMATS, find_format
from unstale.data.rows import TextWriter

WORDS = "river mountain engine violin planet bread castle spider winter market".split()

CHILD = """
import json, sys, threading, time
from pathlib import Path
from unstale.data.load import load_dataset

def anonymous():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) / 1024

def watch():
    while True:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.02)

before = anonymous()
peak = [before]
threading.Thread(target=watch, daemon=True).start()
began = time.process_time()
dataset = load_dataset(sys.argv[1])
seconds = time.process_time() - began
whole = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
judged = sum(len(q.query) for q in dataset.qrels.values())
rows = len(dataset.targets) + len(dataset.queries) + judged
print(json.dumps({"rows": rows, "seconds": seconds, "mb": peak[0] - before, "whole_mb": whole}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, default=50, help="words of a target")
    parser.add_argument("--formats", default=",".join(f for f in FORMATS if f != "ir_datasets"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        dataset = synthetic(options.lines, options.words)
        for name in options.formats.split(","):
            folder = Path(scratch, name)
            folder.mkdir()
            began = time.process_time()
            find_format(name).write(dataset, folder)
            written = time.process_time() - began
            size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 2**20
            command = [sys.executable, "-c", CHILD, str(folder)]
            found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            found |= {"size_mb": size, "written_seconds": written}
            results[name] = found
            print(
                f"{name:>16}: {size:7,.0f} MB, {found['rows'] / found['seconds']:9,.0f} rows/s, "
                f"{found['seconds']:5.1f} s of processor time, {found['mb']:6,.0f} MB more at most "
                f"(VmHWM {found['whole_mb']:,.0f}); written in {written:.1f} s",
                flush=True,
            )
            shutil.rmtree(folder)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def synthetic(lines: int, words: int) -> RetrievalDataset:
    random = np.random.default_rng(0)
    writers = {name: TextWriter() for name in "target_ids targets query_ids queries".split()}
    for i in range(lines):
        text = " ".join(WORDS[w] for w in random.integers(len(WORDS), size=words))
        for name, value in (
            ("target_ids", f"t{i}"),
            ("targets", f"Title {i} {text}"),
            ("query_ids", f"q{i}"),
            ("queries", f"what is {i} about?"),
        ):
            writers[name].append(value)
    rows = np.arange(lines)
    qrels = {"train": Qrels(rows, rows, np.ones(lines, np.int64))}
    ends = np.array([len(f"Title {i}") for i in range(lines)])
    texts = {name: writer.finish() for name, writer in writers.items()}
    return RetrievalDataset(name="synthetic", qrels=qrels, title_ends=ends, **texts)


if __name__ == "__main__":
    main()
