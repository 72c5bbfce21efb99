"""`unstale compare`: strategies x seeds, from identical starts, with an honest summary."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformerTrainingArguments

from unstale.cli.compare_rag import AnyChecked, Start, check_each, prepare_rag
from unstale.cli.encoder import open_encoder
from unstale.cli.flags import flag_values
from unstale.cli.options import CompareFlags
from unstale.cli.output import run_folder
from unstale.cli.report import recipe
from unstale.cli.train import check_trainer
from unstale.data.load import load_dataset
from unstale.declare import taken_from
from unstale.errors import InputError
from unstale.miners.strategy import find_strategy
from unstale.rag.check import find_rag_strategy
from unstale.report.page import write_page
from unstale.report.summary import summarise
from unstale.report.table import print_comparison
from unstale.results import RESULTS, RunResult
from unstale.training.cells import Cell, embed_once, parse_seeds, run_cells
from unstale.training.job import train_checked
from unstale.training.settings import TrainSettings

USUAL = "in-batch,stale,corrected,exhaustive"


def run(chosen: CompareFlags) -> None:
    """Train every cell that is not finished, then summarise them all."""
    for name in ("strategy", "seed"):
        if getattr(chosen, name) != getattr(type(chosen), name):
            rule = "a comparison takes --strategies and --seeds, separated by commas"
            raise InputError(f"--{name} {getattr(chosen, name)}: {rule}")
    cells = _cells(chosen, find_rag_strategy if chosen.reader else find_strategy)
    with run_folder("compare", chosen) as folder:
        if folder.finished:
            return
        names = list(dict.fromkeys(name for name, _ in cells))
        start = prepare_rag(chosen, names) if chosen.reader else _prepare(chosen, names)
        output = folder.begin()
        buffer = Path(chosen.buffer) if chosen.buffer else output / "buffer"
        if chosen.buffer is None:
            embed_once(start.dataset, start.model, buffer, chosen.dtype)
        runs, values = _train(start, cells, output / "cells", buffer)
        summary = summarise(values)
        folder.finish(start.counts, runs, summary=summary)
    print_comparison(runs, summary, title=f"{start.dataset.name}, {chosen.eval_split} split")
    page = write_page(output, recipe(flag_values(chosen)))
    print(f"results: {output / RESULTS}\nreport:  open {page}")


def _train(
    start: Start, cells: list[tuple[str, int]], folder: Path, buffer: Path
) -> tuple[list[RunResult], dict[str, dict[int, dict[str, np.ndarray]]]]:
    """Train the cells; return their results, and their metrics by strategy, seed and query."""
    todo = []
    for strategy, seed in cells:
        own = start.checked[strategy]
        own = replace(own, settings=replace(own.settings, seed=seed, buffer=buffer))
        name = f"{strategy}, seed {seed}"
        todo.append(Cell(folder / f"{strategy}-{seed}", name, partial(start.train, own)))
    runs = []
    values: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for (strategy, seed), done in zip(cells, run_cells(todo), strict=True):
        runs.append(done.entry)
        values.setdefault(strategy, {})[seed] = done.values
    return runs, values


def _prepare(chosen: CompareFlags, strategies: list[str]) -> Start:
    """Check everything for Algorithm 1."""
    if chosen.rag:
        raise InputError("--rag.* belong to a comparison with a --reader")
    check_trainer(chosen.trainer, SentenceTransformerTrainingArguments)
    dataset = load_dataset(chosen.data)
    model = open_encoder(chosen)

    def train(own: AnyChecked, folder: Path, resume: bool) -> RunResult:
        trained = open_encoder(chosen, dropout=chosen.dropout)
        return train_checked(dataset, trained, folder, own, resume=resume)

    checked = check_each(
        strategies,
        taken_from(TrainSettings, chosen),
        lambda settings, known: settings.check(dataset, model, known),
    )
    return Start(dataset, dataset.counts, model, checked, train)


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
        if count and (not count.isdigit() or not 1 <= int(count) <= len(seeds)):
            raise InputError(f"--strategies {word}: expected a number from 1 to {len(seeds)}")
        counts[name] = int(count or len(seeds))
    return [(name, seed) for i, seed in enumerate(seeds) for name, n in counts.items() if i < n]
