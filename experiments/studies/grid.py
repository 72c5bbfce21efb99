"""A study that is a grid of trainings: variants x starts x seeds, measured alike and drawn.

A grid only declares what varies, what the paper found and how to draw it. Finished cells survive
an interruption.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from sentence_transformers import SentenceTransformer

from experiments.studies import declare
from experiments.studies.grid_table import Paper, make_rows, write_tables
from experiments.studies.study import Draw, Study
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.encoders.load import default_towers, load_encoder
from unstale.errors import InputError
from unstale.training.cells import Cell, Finished, check_cell, embed_once, run_cells, training
from unstale.training.settings import hidden_widths

Variant = Mapping[str, Any]  # settings of `train`
Key = tuple[str, str, int]  # start, variant and seed of a cell
Load = Callable[[], SentenceTransformer]
AS_IT_IS = "as it is"
# The flags of `unstale train` that shape the encoder; the others are settings of the training.
ENCODER_FLAGS = (
    "towers", "layers", "query_prompt", "target_prompt", "query_max_length", "target_max_length",
    "dropout", "device", "trust_remote_code",
)  # fmt: skip


@final
@dataclass(frozen=True, kw_only=True)
class GridSettings:
    """The settings of every grid."""

    data: str = declare.text("docstrings", "A dataset in any format that unstale reads.")
    model: str = declare.text("tiny", "`tiny`, a model folder, or a hub name.")
    seeds: tuple[int, ...] = declare.seeds((0, 1), "Every variant is trained once for each seed.")
    steps: int = declare.count(300, "The optimizer steps of a training.")
    split: str = declare.text("dev", "The split to measure; a study chooses, so not `test`.")
    train: Variant = declare.mapping("Flags of `unstale train`; what a variant sets wins.")
    more: Mapping[str, Variant] = declare.mappings("Further variants, each with such flags.")


@final
@dataclass(frozen=True)
class Grid:
    """A grid of trainings, declared.

    Args:
        name: What `unstale experiment` calls it.
        variants: By label, the settings of `train` that set a variant apart.
        draw: Makes figure.png of the results.
        references: Labels that the others are tested against.
        paper: What the paper found.
        starts: By name, where the encoder starts: None for the model as it is, or the settings
            of a first training whose outcome is the start.
    """

    name: str
    variants: Mapping[str, Variant]
    draw: Draw | None = None
    references: Sequence[str] = ()
    paper: Paper | None = None
    starts: Mapping[str, Variant | None] = field(default_factory=lambda: {AS_IT_IS: None})

    def study(self) -> Study[GridSettings]:
        """Return what `unstale experiment` runs."""
        return Study(self.name, GridSettings, self.measure, self.draw)

    def measure(self, output: Path, settings: GridSettings) -> dict[str, Any]:
        """Train every cell that is not finished; write table.md."""
        variants = {**self.variants, **settings.more}
        _check_variants(variants)
        encoder = {k: v for k, v in settings.train.items() if k in ENCODER_FLAGS}
        common = {"steps": settings.steps, "batch_size": 64, "eval_split": settings.split}
        common |= {k: v for k, v in settings.train.items() if k not in encoder}
        arguments = {label: _arguments({**common, **own}) for label, own in variants.items()}
        dataset = load_dataset(settings.data)
        load = _loader(settings.model, encoder)
        first = load()
        for each in arguments.values():
            check_cell(dataset, first, each)

        starts = self._make_starts(dataset, output, load, encoder, common)
        buffers = {start: output / "buffer" / _slug(start) for start in starts}
        embedding = {s: embed_once(dataset, loads(), buffers[s]) for s, loads in starts.items()}
        keys = [(s, label, seed) for seed in settings.seeds for s in starts for label in variants]
        cells = [
            Cell(
                folder=output / "cells" / _slug(start) / f"{_slug(label)}-{seed}",
                name=f"{start}: {label}, seed {seed}",
                train=training(
                    dataset,
                    starts[start],
                    {"buffer": buffers[start], **arguments[label], "seed": seed},
                ),
            )
            for start, label, seed in keys
        ]
        done = dict(zip(keys, run_cells(cells, keep_models=False), strict=True))
        tables = {
            start: make_rows(
                variants,
                {v: {s: done[start, v, s] for s in settings.seeds} for v in variants},
                self.references,
            )
            for start in starts
        }
        write_tables(output / "table.md", tables, self.paper)
        return {
            **_describe(settings, dataset),
            "tables": tables,
            "embedding_seconds": embedding,
            **_gather(done, tables),
        }

    def _make_starts(
        self,
        dataset: RetrievalDataset,
        output: Path,
        load: Load,
        encoder: Variant,
        common: Variant,
    ) -> dict[str, Load]:
        """Return how to load each start; train those that are the outcome of a training."""
        made = {}
        for start, settings in self.starts.items():
            if settings is None:
                made[start] = load
                continue
            folder = output / "starts" / _slug(start)
            arguments = _arguments({**common, **settings})
            cell = Cell(folder, f"the start: {start}", training(dataset, load, arguments))
            list(run_cells([cell]))
            # Towers, layers and lengths were saved with it.
            again = {k: v for k, v in encoder.items() if k in ("device", "dropout")}
            made[start] = _loader(str(folder / "model"), again)
        return made


def _describe(settings: GridSettings, dataset: RetrievalDataset) -> dict[str, Any]:
    """Say what was trained, for results.json."""
    return {
        "settings": {
            "data": dataset.name,
            "model": Path(settings.model).name,
            "seeds": list(settings.seeds),
            "steps": settings.steps,
            "split": settings.split,
            "train": dict(settings.train),
        },
        "data": dataset.counts,
    }


def _gather(
    done: Mapping[Key, Finished], tables: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """List the cells and sum their time, those of an earlier call included."""
    return {
        "cells": [
            {"start": start, "variant": label}
            | {k: v for k, v in cell.entry.items() if k != "examples"}
            for (start, label, _), cell in done.items()
        ],
        "summary": {
            f"{start}: {row['variant']}": row["text"]
            for start, rows in tables.items()
            for row in rows
        },
        "seconds": sum(cell.entry["seconds"]["total"] for cell in done.values()),
    }


def _loader(model: str, encoder: Variant) -> Load:
    settings = {"towers": default_towers(model), **encoder}
    return lambda: load_encoder(model, **settings)


def _arguments(settings: Variant) -> dict[str, Any]:
    """Return the arguments of `train`; a width may be given as a flag gives it."""
    widths = {k: hidden_widths(v) for k, v in settings.items() if k == "corrector_hidden"}
    return {**settings, **widths}


def _check_variants(variants: Mapping[str, Variant]) -> None:
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
