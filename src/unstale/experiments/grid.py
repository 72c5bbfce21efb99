"""A study that is a grid of trainings: variants x starts x seeds, measured alike and drawn.

A study only declares what varies, what the paper found and how to draw it. `unstale experiment`
calls it with a folder and settings; finished cells survive an interruption.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, final

import numpy as np
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.encoders.load import default_towers, load_encoder
from unstale.errors import InputError
from unstale.experiments.figures import need_matplotlib
from unstale.experiments.grid_table import Paper, make_row, write_tables
from unstale.files import write_json
from unstale.report.summary import summarise
from unstale.training.cells import (
    Cell,
    Finished,
    check_cell,
    embed_once,
    parse_seeds,
    run_cells,
    training,
)
from unstale.training.settings import hidden_widths

Settings = Mapping[str, Any]  # arguments of `train`
Draw = Callable[[dict[str, Any], Path], None]  # from results to figure.png
AS_IT_IS = "as it is"


@final
@dataclass(frozen=True)
class Study:
    """A grid of trainings, declared.

    Args:
        name: What `unstale experiment` calls it.
        variants: By label, the arguments of `train` that set a variant apart.
        draw: Makes figure.png of the results.
        references: Labels that the others are tested against.
        paper: What the paper found.
        starts: By name, where the encoder starts: None for the model as it is, or the arguments
            of a first training whose outcome is the start.
    """

    name: str
    variants: Mapping[str, Settings]
    draw: Draw
    references: Sequence[str] = ()
    paper: Paper | None = None
    starts: Mapping[str, Settings | None] = field(default_factory=lambda: {AS_IT_IS: None})

    def __call__(
        self,
        output: Path,
        *,
        data: str = "docstrings",
        model: str = "tiny",
        seeds: str | int = "0,1",
        steps: int = 300,
        split: str = "dev",
        train: dict[str, Any] | None = None,
        more: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Train every cell that is not finished; write results.json, table.md and figure.png.

        Args:
            output: The folder to write to.
            data: A folder in BEIR layout, or a built-in set.
            model: `tiny`, a folder, or a hub name.
            seeds: Parted by commas; every variant is trained once for each.
            steps: Optimizer steps of a training.
            split: Where to measure; a study chooses, so not the test split.
            train: Flags of `unstale train` for all variants; what a variant sets wins.
            more: Further variants by label, each with arguments of `train`.
        """
        need_matplotlib()
        numbers = parse_seeds(seeds)
        variants = {**self.variants, **(more or {})}
        _check_variants(variants)
        flags = train or {}
        encoder = {k: v for k, v in flags.items() if k in signature(load_encoder).parameters}
        common = {"steps": steps, "batch_size": 64, "eval_split": split}
        common |= {k: v for k, v in flags.items() if k not in encoder}
        told = {label: _arguments({**common, **own}) for label, own in variants.items()}
        dataset = load_dataset(data)
        load = _loader(model, encoder)
        first = load()
        for settings in told.values():
            check_cell(dataset, first, settings)

        starts = self._make_starts(dataset, output, load, encoder, common)
        buffers, embedding = {}, {}
        for start, loads in starts.items():
            buffers[start] = output / "buffer" / _slug(start)
            embedding[start] = embed_once(dataset, loads(), buffers[start])
        keys = [(start, label, seed) for seed in numbers for start in starts for label in variants]
        cells = [
            Cell(
                folder=output / "cells" / _slug(start) / f"{_slug(label)}-{seed}",
                name=f"{start}: {label}, seed {seed}",
                train=training(
                    dataset,
                    starts[start],
                    {"buffer": buffers[start], **told[label], "seed": seed},
                ),
            )
            for start, label, seed in keys
        ]
        done = dict(zip(keys, run_cells(cells, keep_models=False), strict=True))
        tables = {start: self._rows(variants, start, numbers, done) for start in starts}
        settings = {"data": dataset.name, "model": Path(model).name, "seeds": numbers}
        results = {
            "experiment": self.name,
            "settings": settings | {"steps": steps, "split": split, "train": flags},
            "data": dataset.counts,
            "tables": tables,
            "embedding_seconds": embedding,
            "cells": [
                {"start": start, "variant": label, **_without_texts(done[start, label, seed])}
                for start, label, seed in keys
            ],
            "summary": {
                f"{start}: {row['variant']}": row["text"]
                for start, rows in tables.items()
                for row in rows
            },
            "seconds": sum(d.entry["seconds"]["total"] for d in done.values()),
        }
        write_json(output / "results.json", results)
        write_tables(output / "table.md", tables, self.paper)
        self.draw(results, output / "figure.png")
        return results

    def _make_starts(
        self,
        dataset: RetrievalDataset,
        output: Path,
        load: Callable[[], SentenceTransformer],
        encoder: dict[str, Any],
        common: dict[str, Any],
    ) -> dict[str, Callable[[], SentenceTransformer]]:
        """Return how to load each start; train those that are the outcome of a training."""
        made = {}
        for start, settings in self.starts.items():
            if settings is None:
                made[start] = load
                continue
            folder = output / "starts" / _slug(start)
            told = _arguments({**common, **settings})
            cell = Cell(folder, f"the start: {start}", training(dataset, load, told))
            list(run_cells([cell]))
            # Towers, layers and lengths were saved with it.
            again = {k: v for k, v in encoder.items() if k in ("device", "dropout")}
            made[start] = _loader(str(folder / "model"), again)
        return made

    def _rows(
        self,
        variants: Mapping[str, Settings],
        start: str,
        seeds: Sequence[int],
        done: Mapping[tuple[str, str, int], Finished],
    ) -> list[dict[str, Any]]:
        """Summarise what came of one start: a row a variant."""
        values: dict[str, dict[int, dict[str, np.ndarray]]] = {
            label: {seed: done[start, label, seed].values for seed in seeds} for label in variants
        }
        summary = summarise(values, self.references)
        return [
            make_row(label, settings, [done[start, label, s].entry for s in seeds], summary)
            for label, settings in variants.items()
        ]


def _loader(model: str, encoder: dict[str, Any]) -> Callable[[], SentenceTransformer]:
    settings = {"towers": default_towers(model), **encoder}
    return lambda: load_encoder(model, **settings)


def _arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments of `train`; a width may be given as a flag gives it."""
    widths = {k: hidden_widths(v) for k, v in settings.items() if k == "corrector_hidden"}
    return {**settings, **widths}


def _check_variants(variants: Mapping[str, Settings]) -> None:
    for label, settings in variants.items():
        if not isinstance(settings, Mapping):
            raise InputError(f"the variant {label!r} must have settings, not {settings!r}")
    slugs = [_slug(label) for label in variants]
    if len(set(slugs)) != len(slugs):
        raise InputError(f"two variants would share a folder: {', '.join(variants)}")


def _slug(label: str) -> str:
    """Make a folder's name of a label.

    Example:
        >>> _slug("corrected, 1 hard")
        'corrected-1-hard'
    """
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


def _without_texts(done: Finished) -> dict[str, Any]:
    return {k: v for k, v in done.entry.items() if k != "examples"}
