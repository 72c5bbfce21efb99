"""Corrected search against its alternatives, interleaved in one process, while h is being trained.

    python benchmarks/search.py --json search.json
    python benchmarks/search.py --dim 768 --hidden 8192 --queries 128 --steps 200 --rounds 3
    python benchmarks/search.py --targets 1000000 --precision int8 --modes exact,ivf,stale

Targets are synthetic: clusters, and a nonlinear drift that reaches a mean cosine of 0.8 at the
last step. At every step the corrector learns from that step's candidates, and every mode that
changes with it runs; the slow modes run at `--rounds` of the steps. Medians of seconds.
"""

import argparse
import json
import resource
import statistics
import time
from pathlib import Path

import faiss
import torch
from torch.nn.functional import cosine_similarity, normalize

from unstale.buffer.stored import DTYPES, Stored
from unstale.corrector.losses import cross_entropy
from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.search.added import Added
from unstale.search.best import agreement
from unstale.search.exact import Exact
from unstale.search.ivf import IVF
from unstale.search.rolling import Rolling

MODES = "literal exact rolling ivf stale faiss_flat faiss_ivf".split()
CHUNK = 8192


def main() -> None:
    options = parse()
    torch.manual_seed(0)
    world = World(options)
    corrector = Corrector(options.dim, [options.hidden], unit=not options.dot_product)
    optimizer = torch.optim.AdamW(corrector.parameters(), lr=1e-3, weight_decay=0.0)
    memory = ResidualMemory(options.targets, options.dim) if options.memory else None
    modes = searches(options, world.buffer, corrector, memory)
    seconds: dict[str, list[float]] = {name: [] for name in modes}
    overlap: dict[str, list[float]] = {name: [] for name in ("rolling", "ivf") if name in modes}
    slow = {"literal", "exact", "faiss_flat", "faiss_ivf"}
    first = options.steps // 6  # 50 of 300: a corrector that has moved
    due = {
        first + (i + 1) * (options.steps - first) // options.rounds for i in range(options.rounds)
    }
    for step in range(options.steps + 1):
        queries, labels = world.queries(step)
        found = {}
        for name, search in modes.items():
            if name not in slow or step in due:
                start = time.perf_counter()
                found[name] = search(step, queries)
                if step >= first:
                    seconds[name].append(time.perf_counter() - start)
        for name, readings in overlap.items():
            reference = found.get("exact", found.get("literal"))
            if reference is not None:
                readings.append(agreement(found[name], reference))
        mined = found[next(name for name in ("rolling", "ivf", "stale") if name in found)]
        rows, missed = learn(corrector, optimizer, world, queries, labels, mined, step)
        if memory is not None:
            memory.write(rows, missed)
            if "rolling" in modes:
                modes["rolling"].search.remember(rows)
        if options.progress and step % 10 == 0:
            print(f"step {step}", {n: f"{s[-1]:.3f}" for n, s in seconds.items() if s}, flush=True)
    report(options, world, seconds, overlap, modes)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--targets", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--queries", type=int, default=32)
    parser.add_argument("--k", type=int, default=64)
    parser.add_argument("--steps", type=int, default=300, help="over which h is trained")
    parser.add_argument("--rounds", type=int, default=10, help="runs of the slow modes")
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument(
        "--precision", default="float32", choices=DTYPES, help="of snapshots, and of a big buffer"
    )
    parser.add_argument(
        "--dot-product", action="store_true", help="h as of an encoder whose output is not unit"
    )
    parser.add_argument(
        "--memory", action="store_true", help="add what h missed of a target, as training does"
    )
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--progress", action="store_true")
    chosen = parser.parse_args()
    modes = set(chosen.modes.split(","))
    if unknown := modes - set(MODES):
        parser.error(f"--modes are {', '.join(MODES)}, not {', '.join(sorted(unknown))}")
    if not modes & {"rolling", "ivf", "stale"}:
        parser.error("--modes need rolling, ivf or stale: h learns from what one of them mines")
    if (
        min(chosen.k, chosen.queries, chosen.rounds, chosen.steps // 6) < 1
        or chosen.k > chosen.targets
    ):
        parser.error("expected k, queries, rounds >= 1, steps >= 6 and k <= targets")
    if chosen.json and not chosen.json.parent.is_dir():
        parser.error(f"--json {chosen.json}: no such folder")
    return chosen


class World:
    """Targets in clusters, and where the encoder puts them at each step."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.n, self.d, self.steps = options.targets, options.dim, options.steps
        self.b = options.queries
        centres = normalize(torch.randn(options.clusters, self.d))
        self.buffer = Stored.empty(self.n, self.d, options.precision)
        for start in range(0, self.n, 65_536):
            size = min(65_536, self.n - start)
            own = centres[torch.randint(options.clusters, (size,))]
            own = normalize(own + normalize(torch.randn(size, self.d)))
            self.buffer.write(slice(start, start + size), own)
        self.inner = 6 * torch.randn(self.d, self.d) / self.d**0.5
        self.outer = torch.randn(self.d, self.d) / self.d**0.5
        self.common = 0.3 * normalize(torch.randn(self.d), dim=0)

    def fresh(self, rows: torch.Tensor, step: int) -> torch.Tensor:
        """Move targets: by a nonlinear map, a vector common to all, and something of their own."""
        stale = self.buffer[rows]
        mapped = normalize(torch.tanh(stale @ self.inner.T) @ self.outer.T)
        own = normalize(torch.cos(1000.0 * stale + rows[:, None]))
        drift = 0.9 * mapped + self.common + 0.3 * own
        return normalize(stale + 0.75 * step / self.steps * drift)

    def queries(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(self.n, (self.b,))
        noise = 0.9 * normalize(torch.randn(self.b, self.d))
        return normalize(self.fresh(labels, step) + noise), labels


def learn(corrector, optimizer, world, queries, labels, mined, step):
    """Train h as Algorithm 1 does, on the step's candidates: labels, mined and uniform ones.

    Return what h missed of each.
    """
    rows = torch.cat([labels, mined[:, :16].flatten(), torch.randint(world.n, (128,))]).unique()
    fresh = world.fresh(rows, step)
    corrected = corrector(world.buffer[rows])
    loss = 10 * cross_entropy(queries, fresh, corrected, scale=20.0)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(corrector.parameters(), 1.0)
    optimizer.step()
    return rows, (fresh - corrected).detach()


def searches(options, buffer, corrector, memory):
    """Return each mode as a function of the step and the queries that gives rows."""
    chosen = options.modes.split(",")
    k = options.k

    def scan(vectors_of, queries, chunk):
        best = []
        for start, stale in buffer.chunks(chunk):
            top = (queries @ vectors_of(stale, start).T).topk(min(k, len(stale)), dim=1)
            best.append((top.values, top.indices + start))
        values = torch.cat([v for v, _ in best], dim=1).topk(k, dim=1)
        return torch.cat([i for _, i in best], dim=1).gather(1, values.indices)

    # Literal: as many targets as keep the whole hidden layer in the cache, 24 MB; measured.
    chunk = max(1024, 24 * 2**20 // (4 * (options.dim + options.hidden + options.queries)))

    @torch.no_grad()
    def literal(step, queries):
        def seen(vectors, start):
            missed = 0 if memory is None else memory.residual[start : start + len(vectors)]
            return corrector(vectors) + missed

        return scan(seen, queries, chunk)

    def stale(step, queries):
        return scan(lambda vectors, _: vectors, queries, CHUNK)

    def ours(search):
        def run(step, queries):
            search.begin(step)
            rows = torch.arange(len(queries))
            added = None if memory is None else Added(step, queries, rows, memory)
            return search.top_k(queries, k, None, added).rows

        run.search = search
        return run

    def faiss_index(kind):
        everything = buffer[torch.arange(len(buffer))].numpy()
        index = faiss.index_factory(options.dim, kind, faiss.METRIC_INNER_PRODUCT)
        index.train(everything[:: max(1, len(everything) // 50_000)])
        index.add(everything)
        if kind != "Flat":
            index.nprobe = 16
        return lambda step, queries: torch.from_numpy(index.search(queries.numpy(), k)[1])

    makers = {
        "literal": lambda: literal,
        "exact": lambda: ours(Exact(buffer, corrector)),
        "rolling": lambda: ours(
            Rolling(buffer, corrector, precision=options.precision, memory=memory)
        ),
        "ivf": lambda: ours(IVF(buffer, corrector, precision=options.precision)),
        "stale": lambda: stale,
        "faiss_flat": lambda: faiss_index("Flat"),
        "faiss_ivf": lambda: faiss_index(f"IVF{round(4 * options.targets**0.5)},Flat"),
    }
    return {name: makers[name]() for name in MODES if name in chosen}


def report(options, world, seconds, overlap, modes) -> None:
    median = {name: statistics.median(s) for name, s in seconds.items() if s}
    pairs = "exact/literal rolling/literal rolling/stale ivf/stale".split()
    ratios = {}
    for one, other in (pair.split("/") for pair in pairs):
        if one in median and other in median:
            # Against literal: how many times faster. Against stale: how many times its time.
            ratio = median[one] / median[other]
            ratio = 1 / ratio if other == "literal" else ratio
            ratios[f"{one}_vs_{other}"] = ratio
    rows = torch.randint(world.n, (1000,))
    drift = cosine_similarity(world.fresh(rows, world.steps), world.buffer[rows]).mean().item()
    shape = {n: getattr(options, n) for n in "targets dim hidden queries k".split()}
    result = {
        "shape": shape,
        "seconds": median,
        "mean_seconds": {name: statistics.fmean(s) for name, s in seconds.items() if s},
        "ratios": ratios,
        "overlap": {name: statistics.mean(r) for name, r in overlap.items() if r},
        "steps": options.steps,
        "cosine_at_the_end": drift,
        "precision": options.precision,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "threads": torch.get_num_threads(),
        "machine": machine(),
        "readings": {n: modes[n].search.readings for n in ("rolling", "ivf") if n in modes},
    }
    network = 4 * options.dim * options.hidden * options.targets
    if "rolling" in modes:
        scan = 2 * options.dim * options.queries * options.targets
        reranked = modes["rolling"].search.control.reranked
        depth = 2 * options.dim * options.hidden * reranked
        result["flop_ceiling_of_rolling_vs_literal"] = network / (scan + depth)
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def machine() -> dict[str, float]:
    """Measure what the machine could do: a large sgemm, and reading memory."""
    square, long = torch.randn(2048, 2048), torch.randn(2**26)
    times = {"sgemm": [], "read": []}
    for _ in range(5):
        start = time.perf_counter()
        square @ square
        times["sgemm"].append(time.perf_counter() - start)
        start = time.perf_counter()
        long.sum()
        times["read"].append(time.perf_counter() - start)
    return {
        "sgemm_gflops": 2 * 2048**3 / min(times["sgemm"]) / 1e9,
        "memory_gb_per_second": 4 * 2**26 / min(times["read"]) / 1e9,
    }


if __name__ == "__main__":
    main()
