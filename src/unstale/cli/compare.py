"""`unstale compare`: strategies x seeds, from identical starts, with an honest summary."""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.cli import options
from unstale.cli.encoder import open_encoder
from unstale.cli.folders import open_output, save_config
from unstale.cli.train import check_flags, training_settings
from unstale.data.load import load_dataset
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.files import write_json
from unstale.report.page import write_page
from unstale.report.results import RESULTS, write_results
from unstale.report.summary import summarise
from unstale.report.table import print_comparison
from unstale.training.job import train
from unstale.training.strategies import find_strategy

CELL = "cell.json"  # written last: a cell that has it is finished


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
    buffer = _embed_once(dataset, chosen, output)

    entries: list[dict[str, Any]] = []
    values: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for i, (strategy, seed) in enumerate(cells, 1):
        folder = output / "cells" / f"{strategy}-{seed}"
        if not (folder / CELL).exists():
            print(f"[{i}/{len(cells)}] {strategy}, seed {seed}", flush=True)
            cell = replace(chosen, strategy=strategy, seed=seed, buffer=str(buffer))
            settings = training_settings(cell) | {"resume": (folder / "checkpoints").exists()}
            entry = train(dataset, open_encoder(cell, dropout=cell.dropout), folder, **settings)
            write_json(folder / CELL, entry)
        entries.append(json.loads((folder / CELL).read_text("utf-8")))
        with np.load(folder / f"{chosen.eval_split}.npz", allow_pickle=False) as stored:
            values.setdefault(strategy, {})[seed] = dict(stored)
    summary = summarise(values)
    write_results(output, dataset.counts, entries, summary)
    print_comparison(entries, summary, title=f"{dataset.name}, {chosen.eval_split} split")
    print(f"results: {output / RESULTS}\nreport:  open {write_page(output, asdict(chosen))}")


def _cells(chosen: options.Compare) -> list[tuple[str, int]]:
    """List (strategy, seed), seed by seed, so that an interrupted table is an even one.

    `stale` runs all seeds; `stale:1` only as many.
    """
    seeds = _seeds(chosen.seeds)
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


def _seeds(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdigit() for word in words) or len(set(words)) != len(words):
        raise InputError(f"--seeds must be different whole numbers, not {text!r}")
    return [int(word) for word in words]


def _embed_once(dataset: Any, chosen: options.Compare, output: Path) -> Path:  # noqa: ANN401
    """Embed the corpus for all cells; they start from the same encoder."""
    if chosen.buffer is not None:
        return Path(chosen.buffer)
    model = open_encoder(chosen)
    began = time.perf_counter()
    made_by = fingerprint(model, dataset.targets)
    tokens = target_tokens(model, dataset)
    _, embedded = embed_corpus(model, tokens, output / "buffer", made_by, dtype=chosen.dtype)
    if embedded:
        print(f"{embedded:,} targets embedded in {time.perf_counter() - began:.0f} s, once for all")
    return output / "buffer"
