"""`unstale compare`: strategies x seeds, from identical starts, with an honest summary."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from unstale.cli.compared import compared_cells, rag_flags
from unstale.cli.flags import flag_values
from unstale.cli.options import CompareFlags
from unstale.cli.output import run_folder
from unstale.cli.rag import prepare_rag
from unstale.cli.report import recipe
from unstale.cli.train import Start, prepare_train
from unstale.distributed import on_first, start
from unstale.report.page import write_page
from unstale.report.summary import REFERENCES, summarise
from unstale.report.table import print_comparison
from unstale.results import RESULTS, RunResult
from unstale.shown import say
from unstale.training.cells import Cell, embed_once, run_cells


def run(chosen: CompareFlags) -> None:
    """Train every cell that is not finished, then summarise them all."""
    cells = compared_cells(chosen)
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
            embed_once(ready.dataset, ready.models[0], buffer, chosen)
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
