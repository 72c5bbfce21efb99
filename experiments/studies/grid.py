"""A study that is a grid of trainings: variants x starts x seeds, measured alike and drawn.

A grid only declares what varies, what the paper found and how to draw it. Finished cells survive
an interruption.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, final

from sentence_transformers import SentenceTransformer

from experiments.studies.declared import ENCODER_FLAGS, GridSettings
from experiments.studies.grid_cells import describe_cell, made_of, take_over
from experiments.studies.grid_table import Paper, make_rows, write_tables
from experiments.studies.price import encoded, price_text
from experiments.studies.study import Draw, Study
from experiments.studies.variants import Variant
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.declare import changed, parse_seeds
from unstale.encoders.load import default_towers, load_encoder
from unstale.errors import InputError
from unstale.results import RunResult
from unstale.training.cells import Cell, Finished, embed_once, run_cells
from unstale.training.job import train
from unstale.training.settings import Checked, TrainSettings

Key = tuple[str, str, int]  # start, variant and seed of a cell
Load = Callable[[], SentenceTransformer]
AS_IT_IS = "as it is"


@final
class Plan(NamedTuple):
    """What a grid trains, by its settings alone."""

    variants: Mapping[str, Variant]
    seeds: Sequence[int]
    encoder: Mapping[str, Any]  # flags
    common: TrainSettings
    chosen: Mapping[str, TrainSettings]  # by variant


@final
@dataclass(frozen=True)
class Grid:
    """A grid of trainings, declared.

    Args:
        name: What `unstale experiment` calls it.
        variants: By label, the settings that set a variant apart.
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
        self.read(settings)  # what can be refused is refused before the data is read
        return self.measure_on(load_dataset(settings.data), output, settings)

    def read(self, settings: GridSettings) -> Plan:
        """Say what is to be trained; refuse settings that make no sense on any data."""
        variants, seeds = {**self.variants, **settings.more}, parse_seeds(settings.seeds)
        _check_variants(variants)
        encoder = {k: v for k, v in settings.train.items() if k in ENCODER_FLAGS}
        others = {k: v for k, v in settings.train.items() if k not in encoder}
        # Studies compare methods at the end of a run, as the paper does, and not their best points.
        common = TrainSettings(
            steps=settings.steps, batch_size=64, eval_split=settings.split, guard=False
        )
        common = changed(common, others)
        chosen = {label: changed(common, own) for label, own in variants.items()}
        return Plan(variants, seeds, encoder, common, chosen)

    def measure_on(
        self, dataset: RetrievalDataset, output: Path, settings: GridSettings
    ) -> dict[str, Any]:
        """Do the same with data that is loaded already."""
        variants, seeds, encoder, common, chosen = self.read(settings)
        load = _loader(settings.model, encoder)
        checked = _check_all(dataset, load(), chosen)

        starts = self._make_starts(dataset, output, load, encoder, common)
        buffers = {s: Path(common.buffer or output / "buffer" / _slug(s)) for s in starts}
        embedding = {
            s: None if common.buffer else embed_once(dataset, loads(), buffers[s], common)
            for s, loads in starts.items()
        }
        counts = {label: encoded(own, len(dataset.targets)) for label, own in checked.items()}
        seconds = next(iter(embedding.values()))
        print(price_text(counts, len(seeds) * len(starts), len(dataset.targets), seconds))
        keys = [(s, label, seed) for seed in seeds for s in starts for label in variants]
        cells = []
        for start, label, seed in keys:
            own = replace(chosen[label], seed=seed, buffer=chosen[label].buffer or buffers[start])
            place = Path("cells") / _slug(start) / f"{_slug(label)}-{seed}"
            made = made_of(dataset, settings.model, encoder, own)
            if take_over(output / place, [other / place for other in settings.others], made):
                print(f"taken over: {start}: {label}, seed {seed}")
            training = _training(dataset, starts[start], own, made)
            cells.append(Cell(output / place, f"{start}: {label}, seed {seed}", training))
        done = dict(zip(keys, run_cells(cells, keep_models=False), strict=True))
        references = [label for label in self.references if label in variants]
        tables = {
            start: make_rows(
                variants, {v: {s: done[start, v, s] for s in seeds} for v in variants}, references
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
        encoder: Mapping[str, Any],
        common: TrainSettings,
    ) -> dict[str, Load]:
        """Return how to load each start; train those that are the outcome of a training."""
        made = {}
        for start, settings in self.starts.items():
            if settings is None:
                made[start] = load
                continue
            folder = output / "starts" / _slug(start)
            chosen = changed(common, settings)
            first = _training(dataset, load, chosen, {})
            cell = Cell(folder, f"the start: {start}", first)
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
            "seeds": parse_seeds(settings.seeds),
            "steps": settings.steps,
            "split": settings.split,
            "train": {k: v for k, v in settings.train.items() if k != "buffer"},
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
            | {k: v for k, v in cell.entry.to_json().items() if k != "examples"}
            for (start, label, _), cell in done.items()
        ],
        "summary": {
            f"{start}: {row['variant']}": row["text"]
            for start, rows in tables.items()
            for row in rows
        },
        "seconds": sum(cell.entry.seconds["total"] for cell in done.values()),
    }


def _check_all(
    dataset: RetrievalDataset, model: SentenceTransformer, chosen: Mapping[str, TrainSettings]
) -> dict[str, Checked[TrainSettings]]:
    """Refuse settings that cannot work, before any cell is trained."""
    checked: dict[str, Checked[TrainSettings]] = {}
    known = None
    for label, settings in chosen.items():
        known = checked[label] = settings.check(dataset, model, known)
    return checked


def _training(
    dataset: RetrievalDataset, load: Load, settings: TrainSettings, made: Mapping[str, Any]
) -> Callable[[Path, bool], RunResult]:
    """Return how to train a cell, from an encoder that is loaded anew for it."""

    def work(folder: Path, resume: bool) -> RunResult:
        result = train(dataset, load(), folder, settings, resume=resume)
        describe_cell(folder, made)
        return result

    return work


def _loader(model: str, encoder: Mapping[str, Any]) -> Load:
    settings = {"towers": default_towers(model), **encoder}
    return lambda: load_encoder(model, **settings)


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
