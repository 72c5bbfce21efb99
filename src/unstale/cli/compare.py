"""`unstale compare`: strategies x seeds, from identical starts, with an honest summary."""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from unstale.cli.flags import flag_values
from unstale.cli.options import CompareFlags, RagFlags
from unstale.cli.output import run_folder
from unstale.cli.rag import prepare_rag
from unstale.cli.report import recipe
from unstale.cli.train import Start, prepare_train
from unstale.declare import flag, parse_seeds
from unstale.distributed import on_first, start
from unstale.errors import InputError
from unstale.miners.strategy import find_strategy
from unstale.rag.check import find_rag_strategy
from unstale.report.page import write_page
from unstale.report.summary import REFERENCES, summarise
from unstale.report.table import print_comparison
from unstale.results import RESULTS, RunResult
from unstale.shown import say
from unstale.training.cells import Cell, embed_once, run_cells

USUAL = "in-batch,stale,corrected,exhaustive"


def run(chosen: CompareFlags) -> None:
    """Train every cell that is not finished, then summarise them all."""
    for name in ("strategy", "seed"):
        if getattr(chosen, name) != getattr(type(chosen), name):
            rule = "a comparison takes --strategies and --seeds, separated by commas"
            raise InputError(f"--{name} {getattr(chosen, name)}: {rule}")
    if chosen.rag and not chosen.reader:
        raise InputError("--rag.* belong to a comparison with a --reader")
    cells = _cells(chosen, find_rag_strategy if chosen.reader else find_strategy)
    start(chosen.device)
    with run_folder("compare", chosen) as folder:
        if folder.finished:
            return
        names = list(dict.fromkeys(name for name, _ in cells))
        ready = (
            prepare_rag(rag_flags(chosen), names) if chosen.reader else prepare_train(chosen, names)
        )
        output = folder.begin()
        buffer = Path(chosen.buffer) if chosen.buffer else output / "buffer"
        if chosen.buffer is None:
            embed_once(ready.dataset, ready.models[0], buffer, chosen.dtype)
        ready = replace(ready, models=())  # each cell loads its own: these need no memory any more
        runs, values = _train(ready, cells, output / "cells", buffer)
        whole = ready.measure_whole()
        runs = [replace(run, full_metrics=whole) for run in runs]
        summary = summarise(values, (*REFERENCES, "frozen") if chosen.reader else REFERENCES)
        folder.finish(ready.counts, runs, summary=summary)
    print_comparison(runs, summary, title=f"{ready.dataset.name}, {chosen.eval_split} split")
    page = on_first(lambda: write_page(output, recipe(flag_values(chosen))))
    say(f"results: {output / RESULTS}\nreport:  open {page}")


def _train(
    ready: Start, cells: list[tuple[str, int]], folder: Path, buffer: Path
) -> tuple[list[RunResult], dict[str, dict[int, dict[str, np.ndarray]]]]:
    """Train the cells; return their results, and their metrics by strategy, seed and query."""

    def cell(strategy: str, seed: int) -> Cell:
        own = ready.checked[strategy]
        own = replace(own, settings=replace(own.settings, seed=seed, buffer=buffer))
        return Cell(
            folder / f"{strategy}-{seed}",
            f"{strategy}, seed {seed}",
            lambda place, resume: ready.train(own, ready.load(seed), place, resume),
            ready.identity(own),
        )

    todo = [cell(*one) for one in cells]
    runs = []
    values: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for (strategy, seed), done in zip(cells, run_cells(todo), strict=True):
        runs.append(done.entry)
        values.setdefault(strategy, {})[seed] = done.values
    return runs, values


def _cells(chosen: CompareFlags, find: Callable[[str], object]) -> list[tuple[str, int]]:
    """List (strategy, seed), seed by seed, so that an interrupted table is an even one.

    `stale` runs all seeds; `stale:1` only as many.
    """
    seeds = parse_seeds(chosen.seeds)
    counts: dict[str, int] = {}
    usual = "none,frozen,corrected,exhaustive" if chosen.reader else USUAL
    for word in (chosen.strategies or usual).split(","):
        name, _, count = word.strip().partition(":")
        find(name)
        if name in counts:
            raise InputError(f"--strategies names {name} twice")
        if count and not (re.fullmatch("[0-9]+", count) and 1 <= int(count) <= len(seeds)):
            raise InputError(f"--strategies {word}: expected a number from 1 to {len(seeds)}")
        counts[name] = int(count or len(seeds))
    return [(name, seed) for i, seed in enumerate(seeds) for name, n in counts.items() if i < n]


def rag_flags(chosen: CompareFlags) -> RagFlags:
    """Take the flags of Algorithm 2 that a comparison has, and those given as `--rag.NAME`."""
    known, own = {f.name for f in fields(RagFlags)}, {f.name for f in fields(chosen)}
    for name in chosen.rag:
        if name not in known:
            raise InputError(f"--rag: `unstale rag` has no {name}")
        if name in own or name == "retriever":
            use = "--model" if name == "retriever" else flag(name)
            raise InputError(f"--rag.{name}: use {use}")
    usual = CompareFlags()
    for name in own - known - {"model", "strategies", "seeds", "rag"}:
        value, default = getattr(chosen, name), getattr(usual, name)
        if value != default and (value or default):  # a config file's empty list is no tuple
            raise InputError(f"{flag(name)} has no effect with a --reader")
    given = {name: getattr(chosen, name) for name in own & known}
    shared = {name: value for name, value in given.items() if value is not None}
    if not chosen.steps:  # whose default is of a training without a reader
        del shared["steps"]
    return RagFlags(**{**shared, **chosen.rag, "retriever": chosen.model})
