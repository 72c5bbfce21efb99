"""What nq.py and msmarco.py share: the paper's settings, a method as a command, and its cost.

A recipe is a command of `unstale train`. Flags that a script does not know are passed on and win.
"""

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from subset import cut

from unstale.cli.main import main as unstale
from unstale.files import atomic_folder
from unstale.report.columns import choose_metrics
from unstale.report.entries import Group, read_groups
from unstale.report.markdown import markdown_table
from unstale.schedule import Schedule

STEPS, BATCH, HARD, UNIFORM, HIDDEN, DIM = 40_000, 128, 64, 64, 8192, 768
SETTINGS = {
    "towers": "separate",
    "steps": STEPS,
    "batch-size": BATCH,
    "hard-negatives": HARD,
    "uniform-negatives": UNIFORM,
    "corrector-hidden": HIDDEN,
    "corrector-weight": 10,
    "corrector-loss": "ce",  # with the next two: the paper's method to the letter
    "no-memory": None,
    "no-fallback": None,
    "no-guard": None,
    "search": "exact",
    # The paper gives neither rates nor lengths; one Adam trains encoders and corrector.
    "learning-rate": 1e-4,
    "corrector-lr": 1e-4,
    "query-max-length": 32,
    "target-max-length": 128,
}
ACCELERATOR = {  # what a slice on a CPU leaves out
    "dtype": "float16",
    "save-steps": 1000,
    "trainer.bf16": "true",
    "mini-batch-size": 512,  # up to 16,512 candidates do not fit at once
}
STARTS = {"gtr": "sentence-transformers/gtr-t5-base", "t5": "google-t5/t5-base"}
# T5-base's encoder: 12 layers of attention (4 x 768 x 768) and feed-forward (2 x 768 x 3072).
PARAMETERS, TOKENS = 12 * (4 * DIM**2 + 2 * DIM * 3072), 128

_NOWHERE = "not measured here"
_VARIANTS = ("corrector-loss", "full-refreshes")  # by which methods of one strategy differ


@dataclass(frozen=True)
class Method:
    """A row of the paper's tables: its flags, and by start what it re-embedded and recalled."""

    strategy: str
    flags: Mapping[str, Any]
    printed: Mapping[str, Sequence[str]]  # start: re-embedded, then recalls parted by spaces


@dataclass(frozen=True)
class Cost:
    """What a method encodes and computes."""

    embedded: int  # before training
    reembedded: int
    sampled: int  # to fit something
    finding: float  # FLOP of embedding, re-embedding and search
    training: float  # FLOP of the candidates, with gradients; queries are few and short


def cost(method: Method, targets: int, steps: int = STEPS, refreshes: int = 80) -> Cost:
    """Count the targets that a method embeds, and estimate its floating-point operations.

    2 a parameter and token to encode, 6 to train; every candidate of a step is taken as distinct,
    which is the most there can be. Exact search reads every target with every query.
    """
    flags, network = method.flags, 0.0
    times = len(_due(refreshes, steps))
    full = int(flags.get("full-refreshes", 0))
    sizes = {
        "exhaustive": times * targets,
        "two-round": targets,
        "stochastic": times * int(flags.get("subset-size", 0)),
        "dynnibal": full * targets,
    }
    reembedded = sizes.get(method.strategy, 0)
    sampled = 0
    if method.strategy == "dynnibal":  # a full refresh takes the place of a refit
        fulls = Schedule.inside(full, steps)
        sampled = sum(not fulls.due(step) for step in _due(refreshes, steps)) * (targets // 20)
    buffered = method.strategy != "in-batch"
    if method.strategy.startswith("corrected"):  # the output layer moves to the queries
        network = 2.0 * targets * (DIM * HIDDEN + HIDDEN * BATCH)
    searched = int(flags.get("subset-size", targets)) if buffered else 0
    scan = 2.0 * searched * DIM * BATCH
    embedded = targets if buffered else 0
    candidates = BATCH * (1 + (HARD + UNIFORM if buffered else 0))
    encoding = 2.0 * PARAMETERS * TOKENS * (embedded + reembedded + sampled)
    training = 6.0 * PARAMETERS * TOKENS * candidates * steps
    return Cost(embedded, reembedded, sampled, encoding + (scan + network) * steps, training)


@cache
def _due(refreshes: int, steps: int) -> list[int]:
    schedule = Schedule.evenly(refreshes, steps)
    return [step for step in range(1, steps + 1) if schedule.due(step)]


def command(
    method: Method,
    start: str,
    data: str,
    output: str,
    more: Sequence[str],
    *,
    sliced: bool,
    splits: str = "test",
) -> list[str]:
    """Write a method as the words of `unstale train`; `compared` ones as those of a comparison."""
    several = "," in method.strategy
    strategy = "strategies" if several else "strategy"
    flags = {"data": data, "model": STARTS[start], strategy: method.strategy, **SETTINGS}
    flags |= {"eval-split": splits}
    flags |= {k: v for k, v in method.flags.items() if not (sliced and k == "subset-size")}
    flags |= {} if sliced else ACCELERATOR
    words = ["compare" if several else "train"]
    given = {word.partition("=")[0] for word in more}
    for name, value in flags.items():
        if f"--{name}" in given:
            continue
        words += [f"--{name}"] if value is None else [f"--{name}", str(value)]
    return [*words, "--output", output, *more]


def compared(methods: Mapping[str, Method], start: str) -> Method:
    """Join the methods of a start into one comparison: of a strategy's variants, the last.

    The variants that are left out, such as other numbers of refreshes, are trained by themselves.
    """
    chosen: dict[str, Method] = {}
    for method in methods.values():
        if start in method.printed:
            chosen[method.strategy] = method
    flags = {name: value for method in chosen.values() for name, value in method.flags.items()}
    return Method(",".join(chosen), {"seeds": "0", **flags}, {})


def measured(results: Path | None) -> dict[str, Group]:
    """Return the runs that are finished, by strategy."""
    if results is None:
        return {}
    groups = read_groups(json.loads(results.read_text("utf-8")), results)
    return {group.strategy: group for group in groups}


def _ours(method: Method, group: Group | None) -> str:
    """Write what runs of this very variant measured, as the paper's columns have it."""
    flags = SETTINGS | dict(method.flags)
    told = {f"--{name}": str(flags[name]) for name in _VARIANTS if name in flags}
    if group is None or any(told.items() - (run.identity or {}).items() for run in group.runs):
        return _NOWHERE
    return _columns(group)


def _columns(group: Group) -> str:
    found: dict[str, list[str]] = {}
    for metric in choose_metrics([group], ()):
        split = metric.rpartition(":")[0] or group.runs[0].split
        found.setdefault(split, []).append(f"{100 * (group.mean(metric) or 0):.2f}")
    return "; ".join(f"{split} {' / '.join(values)}" for split, values in found.items())


def table(
    methods: Mapping[str, Method],
    script: str,
    columns: Sequence[str],
    targets: int,
    refreshes: int,
    results: Path | None = None,
    began: str = "gtr",
) -> str:
    """Write what each method costs beside what the paper printed, a row a method and start.

    The results are of one start, `began`.
    """
    rows, runs = [], measured(results)
    for start in STARTS:
        for name, method in methods.items():
            if start in method.printed:
                found = cost(method, targets, refreshes=refreshes)
                spent = [_short(n) for n in (found.embedded, found.reembedded, found.sampled)]
                spent += [f"{found.finding:.1e}", f"{found.training:.1e}"]
                printed = [text.replace(" ", " / ") for text in method.printed[start]]
                words = f"`{script} --start {start} --method {name}`"
                ours = _ours(method, runs.get(method.strategy)) if start == began else _NOWHERE
                rows.append([words, *spent, *printed, ours])
    head = ["", "embedded", "re-embedded", "sampled", "FLOP to find", "FLOP to train"]
    paper = ["paper: re-embedded", *(f"paper: {column}" for column in columns)]
    return markdown_table([*head, *paper, "ours"], rows)


def _short(count: int) -> str:
    """Write a number of targets as the paper does.

    Example:
        >>> _short(1_680_000_000), _short(42_000_000), _short(0)
        ('1.68B', '42M', '0')
    """
    for size, letter in ((10**9, "B"), (10**6, "M")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return str(count)


def _parser(about: str, methods: Mapping[str, Method]) -> argparse.ArgumentParser:
    starts = [start for start in STARTS if any(start in m.printed for m in methods.values())]
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--data", help="the data, in any format that unstale reads")
    parser.add_argument("--start", choices=starts, default=starts[0])
    parser.add_argument("--method", choices=list(methods), default="corrected")
    parser.add_argument("--compare", action="store_true", help="all methods, by `unstale compare`")
    parser.add_argument("--output", help="default: runs/SCRIPT-START-METHOD")
    parser.add_argument("--slice", type=int, help="only so many targets of a BEIR folder")
    parser.add_argument("--dry-run", action="store_true", help="only print the command")
    parser.add_argument("--table", action="store_true", help="only print costs and the paper's")
    parser.add_argument("--results", type=Path, help="results.json of runs, for --table")
    return parser


def run(
    about: str,
    methods: Mapping[str, Method],
    columns: Sequence[str],
    *,
    targets: int,
    refreshes: int,
    script: str,
    splits: str = "test",
) -> int:
    """Read the script's flags, print the resolved command, and train."""
    parser = _parser(about, methods)
    chosen, more = parser.parse_known_args()
    if chosen.table:
        print(table(methods, script, columns, targets, refreshes, chosen.results, chosen.start))
        return 0
    if not chosen.data:
        parser.error("--data is required")
    name = "compare" if chosen.compare else chosen.method
    output = chosen.output or f"runs/{Path(script).stem}-{chosen.start}-{name}"
    data = chosen.data
    if chosen.slice is not None:
        whole = Path(chosen.data)
        there = chosen.dry_run or (whole / "corpus.jsonl").is_file()
        if chosen.slice < 1 or not there:
            parser.error(f"--slice {chosen.slice} takes targets of a BEIR folder, not of {whole}")
        name = sha256(str(whole.resolve()).encode()).hexdigest()[:8]
        data = f"{output}-slice-{name}-{chosen.slice}"
        if not chosen.dry_run and not Path(data).exists():
            with atomic_folder(Path(data)) as folder:
                cut(whole, folder, chosen.slice)
    method = compared(methods, chosen.start) if chosen.compare else methods[chosen.method]
    sliced = chosen.slice is not None
    words = command(method, chosen.start, data, output, more, sliced=sliced, splits=splits)
    print(f"unstale {shlex.join(words)}", flush=True)
    return 0 if chosen.dry_run else unstale(words)
