"""`unstale compare`: strategies x seeds, from identical starts, with an honest summary."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from unstale.cli import options
from unstale.cli.encoder import open_encoder
from unstale.cli.folders import open_output, save_config
from unstale.cli.train import check_flags, training_settings
from unstale.data.load import load_dataset
from unstale.errors import InputError
from unstale.report.page import write_page
from unstale.report.results import RESULTS, write_results
from unstale.report.summary import summarise
from unstale.report.table import print_comparison
from unstale.training.cells import Cell, embed_once, parse_seeds, run_cells
from unstale.training.strategies import find_strategy


def run(chosen: options.Compare) -> None:
    """Train every cell that is not finished, then summarise them all."""
    cells = _cells(chosen)
    open_output(
        chosen.output,
        overwrite=chosen.overwrite,
        resume=chosen.resume,
        dry=True,
        needs=(chosen.data, chosen.model, chosen.buffer),
    )
    dataset = load_dataset(chosen.data)
    model = open_encoder(chosen)
    for strategy in {name for name, _ in cells}:
        check_flags(dataset, model, replace(chosen, strategy=strategy))
    output = open_output(chosen.output, overwrite=chosen.overwrite, resume=chosen.resume)
    save_config(output, "compare", chosen)
    buffer = Path(chosen.buffer) if chosen.buffer else output / "buffer"
    if chosen.buffer is None:
        embed_once(dataset, model, buffer, chosen.dtype)

    entries = []
    values: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    todo = [_cell(chosen, output, buffer, strategy, seed) for strategy, seed in cells]
    for (strategy, seed), done in zip(cells, run_cells(dataset, todo), strict=True):
        entries.append(done.entry)
        values.setdefault(strategy, {})[seed] = done.values
    summary = summarise(values)
    write_results(output, dataset.counts, entries, summary)
    print_comparison(entries, summary, title=f"{dataset.name}, {chosen.eval_split} split")
    print(f"results: {output / RESULTS}\nreport:  open {write_page(output, asdict(chosen))}")


def _cells(chosen: options.Compare) -> list[tuple[str, int]]:
    """List (strategy, seed), seed by seed, so that an interrupted table is an even one.

    `stale` runs all seeds; `stale:1` only as many.
    """
    seeds = parse_seeds(chosen.seeds)
    counts: dict[str, int] = {}
    for word in chosen.strategies.split(","):
        name, _, count = word.strip().partition(":")
        find_strategy(name)
        if name in counts:
            raise InputError(f"--strategies names {name} twice")
        if count and (not count.isdigit() or not 1 <= int(count) <= len(seeds)):
            raise InputError(f"--strategies {word}: expected a number from 1 to {len(seeds)}")
        counts[name] = int(count or len(seeds))
    return [(name, seed) for i, seed in enumerate(seeds) for name, n in counts.items() if i < n]


def _cell(chosen: options.Compare, output: Path, buffer: Path, strategy: str, seed: int) -> Cell:
    own = replace(chosen, strategy=strategy, seed=seed, buffer=str(buffer))
    settings = training_settings(own)
    del settings["resume"]  # of the comparison; a cell knows by itself
    return Cell(
        folder=output / "cells" / f"{strategy}-{seed}",
        name=f"{strategy}, seed {seed}",
        encoder=lambda: open_encoder(own, dropout=own.dropout),
        settings=settings,
    )
