"""What do 21 million targets cost, apart from a real encoder? Every stage, its memory and time.

    python benchmarks/large.py --folder /big/disk/large --targets 21000000
    python benchmarks/large.py --folder /tmp/large --targets 200000        # two minutes

Writes a made-up corpus in DPR's layout (psgs_w100.tsv, questions) into a new folder and runs the
stages below, the first ones in one process, the others in `--processes` of them: reading, grouping
equal texts, tokenising into the store, embedding (a table of words of `--dim` numbers) into an int8
buffer, opening it, sharing it out, `--searches` searches with ivf while the corrector moves, the
scan of both views that a reading of the meter begins with, a checkpoint, and resuming from that;
last `unstale verify`. The folder, with its cache, is deleted at the end unless `--keep` is given;
for 21 million targets it grows to 12 GB.

Memory is what a process takes at most (`RssAnon`), without the pages of files, which the system may
drop. Beside it stands what `unstale plan` foresees for a process that trains.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

WORDS, TOPIC, HIDDEN, BATCH, NEGATIVES = 20_000, 10, 64, 16, 8
PROBE = 64  # queries of the meter
STEP = 1_000_000  # rows generated at once


def main() -> None:
    """Run every stage in processes of their own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/large"), help="A folder that is not there."
    )
    parser.add_argument("--targets", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--searches", type=int, default=1000, help=f"each of {BATCH} queries")
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.stage:
        STAGES[chosen.stage](chosen)
        return
    from unstale.cli.main import main as unstale

    chosen.folder.mkdir(parents=True)
    os.environ["UNSTALE_CACHE"] = str(chosen.folder / "cache")
    try:
        planned = _planned(chosen)
        for stage in STAGES:
            several = stage in ("share", "resume") and chosen.processes > 1
            torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(chosen.processes)]
            words = [*torchrun] if several else []
            subprocess.run([sys.executable, *words, __file__, *sys.argv[1:], "--stage", stage],
                           check=True)  # fmt: skip
        with measured(chosen.folder, "verify"):
            unstale(["verify", str(chosen.folder)])
        print(_table(chosen, planned), flush=True)
    finally:
        if not chosen.keep:
            shutil.rmtree(chosen.folder)


@contextlib.contextmanager
def measured(folder: Path, stage: str) -> Iterator[None]:
    """Note the seconds of a stage, and the most memory that this process took in it."""
    peak, done = [_anonymous()], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], _anonymous())

    before, began = peak[0], time.perf_counter()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    rank = int(os.environ.get("RANK", "0"))
    seconds = time.perf_counter() - began
    found = {"stage": stage, "rank": rank, "seconds": seconds, "before": before, "peak": peak[0]}
    print(json.dumps(found | {"after": _anonymous()}), flush=True)
    with (folder / f"measured-{rank}.jsonl").open("a") as file:
        file.write(json.dumps(found) + "\n")


def _anonymous() -> float:
    text = Path("/proc/self/status").read_text("utf-8")
    return int(text.split("RssAnon:")[1].split()[0]) / 1024


def generate(chosen: argparse.Namespace) -> None:
    """Write the corpus, questions for it, and the encoder."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    data = chosen.folder / "nq"
    data.mkdir()
    random = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(WORDS)], dtype=object)
    asked: list[dict[str, object]] = []
    with (
        measured(chosen.folder, "generate"),
        (data / "psgs_w100.tsv").open("w", encoding="utf-8") as out,
    ):
        out.write("id\ttext\ttitle\n")
        for start in range(0, chosen.targets, STEP):
            count = min(STEP, chosen.targets - start)
            topic = random.permutation(count) % (WORDS // TOPIC)
            drawn = words[topic[:, None] * TOPIC + random.integers(0, TOPIC, (count, 5))]
            for i, own in enumerate(drawn.tolist(), start + 1):
                title, *text = own
                out.write(f"{i}\t{' '.join(text)} w{i % 977}\tPage {title} {i // 5}\n")
            for i in range(min(200, count)):
                text = f"{' '.join(drawn[i][1:])} w{(start + i + 1) % 977}"
                passage = {"title": f"Page {drawn[i][0]} {(start + i + 1) // 5}", "text": text}
                record = {"question": " ".join(drawn[i][1:4]), "answers": [drawn[i][4]]}
                gold = [passage | {"passage_id": str(start + i + 1)}]
                asked.append(record | {"positive_ctxs": gold})
        for split, some in (("train", asked[::2]), ("dev", asked[1::2])):
            (data / f"nq-{split}.json").write_text(json.dumps(some), "utf-8")
    vocabulary = {"[UNK]": 0} | {word: i for i, word in enumerate(words, 1)} | {"Page": WORDS + 1}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    topics = torch.randn(WORDS // TOPIC, chosen.dim).repeat_interleave(TOPIC, dim=0)
    weights = 0.5 * torch.randn(len(vocabulary), chosen.dim)
    weights[1 : WORDS + 1] += topics  # words of a topic are alike, so that there are neighbours
    static = StaticEmbedding(tokenizer, embedding_weights=torch.nn.Parameter(weights))
    SentenceTransformer(modules=[static, Normalize()]).save_pretrained(str(chosen.folder / "model"))


def prepare(chosen: argparse.Namespace) -> None:
    """Read the corpus, group equal texts, tokenise and embed it: as `unstale embed` does."""
    from unstale.buffer.embed import embed_corpus
    from unstale.buffer.fingerprint import fingerprint
    from unstale.data.dataset import Positives
    from unstale.data.load import load_dataset
    from unstale.encoders.load import load_encoder
    from unstale.encoders.tokenise import target_tokens

    model = load_encoder(str(chosen.folder / "model"), device="cpu")
    with measured(chosen.folder, "read"):
        dataset = load_dataset(str(chosen.folder / "nq"), progress=False)
    with measured(chosen.folder, "group equal texts"):
        Positives(dataset, ["train"])
    with measured(chosen.folder, "fingerprint"):
        made_by = fingerprint(model, dataset.targets)
    with measured(chosen.folder, "tokenise"):
        tokens = target_tokens(model, dataset, progress=False)
    with measured(chosen.folder, "embed, int8"):
        embed_corpus(model, tokens, chosen.folder / "buffer", made_by, dtype="int8", progress=False)


def share(chosen: argparse.Namespace) -> None:
    """Search in several processes while the corrector moves, and write a checkpoint."""
    _search(chosen, resume=False)


def resume(chosen: argparse.Namespace) -> None:
    """Read the checkpoint in new processes, which must find what the others found."""
    _search(chosen, resume=True)


def _search(chosen: argparse.Namespace, *, resume: bool) -> None:
    import torch
    from transformers import set_seed

    from unstale.buffer.buffer import TargetBuffer
    from unstale.buffer.sharded import load
    from unstale.distributed import barrier, rank, start
    from unstale.integrity import seal
    from unstale.miners.corrected import build_corrected
    from unstale.miners.miner import Queries
    from unstale.miners.strategy import Materials
    from unstale.search.auto import Choice
    from unstale.settings import MiningSettings
    from unstale.training.identity import FORMAT
    from unstale.training.probe import DEPTH
    from unstale.training.record import RunRecord
    from unstale.training.state import load_miner, save_miner

    start("cpu")
    again = ", resumed" if resume else ""
    with measured(chosen.folder, f"open{again}"):
        opened = TargetBuffer.open(chosen.folder / "buffer")
    with measured(chosen.folder, f"share out{again}"):
        buffer = load(opened, "cpu")
    settings = MiningSettings(strategy="corrected", corrector_hidden=HIDDEN)
    set_seed(0)
    with measured(chosen.folder, f"residuals{again}"):
        choice = Choice("ivf", "int8", "as asked")
        materials = Materials(settings, len(buffer), buffer, choice, unit=True)
        miner = build_corrected(materials)
    checkpoint, record = chosen.folder / "checkpoint", RunRecord(identity={"format": FORMAT})
    nobody, unit = torch.full((BATCH, 1), -1), torch.nn.functional.normalize

    def asked(step: int) -> Queries:
        """Make queries up that are near some targets, as those of a trained encoder are."""
        random = torch.Generator().manual_seed(step)
        near = buffer[torch.randint(len(buffer), (BATCH,), generator=random)]
        vectors = unit(near + 0.1 * torch.randn(near.shape, generator=random), dim=1)
        return Queries(vectors, torch.arange(BATCH), nobody, step, 20.0)

    if resume:
        with measured(chosen.folder, "resume"):
            load_miner(checkpoint, miner, record)
    else:
        drift = unit(torch.randn(chosen.dim), dim=0)
        optimizer = torch.optim.Adam(miner.network.parameters(), 1e-3)
        with measured(chosen.folder, "cells"):
            miner.search.begin(0)
        with measured(chosen.folder, f"{chosen.searches} searches"):
            for step in range(chosen.searches):
                queries = asked(step)
                rows = miner.mine(queries, NEGATIVES).unique()
                fresh = unit(buffer[rows] + step / chosen.searches * 0.1 * drift, dim=1)
                miner.loss(queries, fresh, rows, None).backward()
                optimizer.step()
                optimizer.zero_grad()
        probe = torch.cat([asked(step).vectors for step in range(PROBE // BATCH)])
        with measured(chosen.folder, f"scan both views, {PROBE} queries"), torch.no_grad():
            miner.ranked(probe, min(DEPTH, len(buffer)))
        checkpoint.mkdir(exist_ok=True)
        barrier()
        with measured(chosen.folder, "checkpoint"):
            save_miner(checkpoint, miner, record)
            barrier()
            if rank() == 0:
                seal(checkpoint)
    found = miner.mine(asked(chosen.searches), NEGATIVES)
    before = chosen.folder / "found.json"
    if resume and found.tolist() != json.loads(before.read_text("utf-8")):
        raise SystemExit("the resumed search finds other targets")
    barrier()
    if rank() == 0:
        before.write_text(json.dumps(found.tolist()), "utf-8")


STAGES = {"generate": generate, "prepare": prepare, "share": share, "resume": resume}


def _planned(chosen: argparse.Namespace) -> dict[str, float]:
    """Ask the planner for the memory of a process and for the sizes on disk."""
    from unstale.miners.strategy import find_strategy
    from unstale.plan.cost import Job, Rates, costs, disk

    job = Job(
        targets=chosen.targets, dim=chosen.dim, hidden=HIDDEN, batch=BATCH, negatives=NEGATIVES,
        parameters=0.0, target_flops=0.0, query_flops=0.0, steps=chosen.searches,
        devices=chosen.processes, buffer_bytes=1,
    )  # fmt: skip
    found = costs(job, Rates(1, 1, 1, 1, 1, 0), [find_strategy("corrected")])
    memory = next(c.memory for c in found if c.search == "ivf")
    return {"memory": memory / 2**20} | {k: v / 1e9 for k, v in disk(job).items()}


def _table(chosen: argparse.Namespace, planned: dict[str, float]) -> str:
    """Write a row a stage: the slowest process's seconds, and the largest one's memory."""
    stages: dict[str, list[dict[str, float]]] = {}
    for path in sorted(chosen.folder.glob("measured-*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            stages.setdefault(json.loads(line)["stage"], []).append(json.loads(line))
    lines = [
        f"{chosen.targets:,} targets of {chosen.dim}, {chosen.processes} processes; "
        f"planned: {planned['memory']:,.0f} MB a process",
        "| stage | seconds | MB before | MB at most |",
        "|---|---:|---:|---:|",
    ]
    for stage, runs in stages.items():
        seconds, before, peak = (max(r[k] for r in runs) for k in ("seconds", "before", "peak"))
        lines.append(f"| {stage} | {seconds:,.1f} | {before:,.0f} | {peak:,.0f} |")
    for name in ("nq", "cache", "buffer", "checkpoint"):
        size = sum(f.stat().st_size for f in (chosen.folder / name).rglob("*") if f.is_file())
        said = f", planned {planned[name]:.2f}" if name in planned else ""
        lines.append(f"disk, {name}: {size / 1e9:.2f} GB{said}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
