"""When is mining worth its cost? The gain over in-batch negatives as the corpus grows."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.studies.declared import GridSettings, NumberOfTargetsSettings
from experiments.studies.figures import figure, line, log_ticks
from experiments.studies.grid import AS_IT_IS, Grid
from experiments.studies.grid_table import write_tables
from experiments.studies.study import Study
from experiments.studies.subset import nested_subsets
from experiments.studies.variants import STAGED, Variant, choose, mixed
from unstale.data.load import load_dataset
from unstale.declare import taken_from
from unstale.errors import InputError
from unstale.report.columns import SHOWN

NAME = "number-of-targets"
REFERENCE = "in-batch"
_METRICS = ("recall@1", "recall@10")


def variants(settings: NumberOfTargetsSettings) -> dict[str, Variant]:
    """Return the rows of each size."""
    known: dict[str, Variant] = {
        REFERENCE: {"strategy": "in-batch"},
        "staged": {"strategy": "staged"},
        "staged, all targets": STAGED,
        "corrected": mixed({"strategy": "corrected"}, settings.hard, settings.uniform),
    }
    chosen = choose({**known, **settings.more}, settings.rows)
    if REFERENCE not in chosen:
        raise InputError(f"the gain is over {REFERENCE!r}, which must be among the rows")
    return chosen


def measure(output: Path, settings: NumberOfTargetsSettings) -> dict[str, Any]:
    """Train every row with every seed on each subset; write a table for each size."""
    grid = Grid(NAME, variants(settings), references=(REFERENCE,))
    plain = replace(taken_from(GridSettings, settings), more={})
    grid.read(plain)
    dataset = load_dataset(settings.data)
    whole = len(dataset.targets)
    sizes = sorted({size or whole for size in settings.sizes})
    same = settings.pairs == "same"
    subsets = nested_subsets(
        dataset, sizes, settings.split, same_pairs=same, seed=settings.subset_seed
    )
    found = {}
    for size, subset in subsets.items():
        folder = f"{size}-targets"
        others = ",".join(str(other / folder) for other in settings.others)
        # A buffer that was embedded before is one of the whole corpus.
        left_out = () if size == whole else ("buffer",)
        train = {k: v for k, v in settings.train.items() if k not in left_out}
        own = replace(plain, train=train, cells_of=others)
        print(f"{size:,} targets, {len(subset.split('train').pairs):,} training pairs")
        found[size] = grid.measure_on(subset, output / folder, own)
    tables = {str(size): results["tables"][AS_IT_IS] for size, results in found.items()}
    write_tables(output / "table.md", tables, kind="Targets")
    return {
        "settings": found[sizes[-1]]["settings"] | {"sizes": sizes, "pairs": settings.pairs},
        "data": {str(size): results["data"] for size, results in found.items()},
        "tables": tables,
        "cells": [
            {"targets": s} | cell for s, results in found.items() for cell in results["cells"]
        ],
        "summary": {
            f"{size:,} targets, {row['variant']}": row["text"]
            for size, results in found.items()
            for row in results["tables"][AS_IT_IS]
        },
        "seconds": sum(results["seconds"] for results in found.values()),
    }


def _draw(results: dict[str, Any], path: Path) -> None:
    sizes = results["settings"]["sizes"]
    tables = [{row["variant"]: row for row in results["tables"][str(size)]} for size in sizes]
    with figure(path, columns=3, size=(4.4, 3.8)) as (*recalls, gain):
        for label in tables[0]:
            chosen = [table[label] for table in tables]
            for axes, metric in zip(recalls, _METRICS, strict=True):
                line(axes, sizes, chosen, metric, label)
            for metric, style in zip(_METRICS, ("o-", "o:"), strict=True):
                if label != REFERENCE:
                    pairs = zip(chosen, tables, strict=True)
                    gains = [_gain(row, table[REFERENCE], metric) for row, table in pairs]
                    means, halves = zip(*gains, strict=True)
                    name = f"{label}, {SHOWN[metric]}"
                    gain.errorbar(sizes, means, yerr=halves, fmt=style, capsize=3, label=name)
        gain.axhline(0, color="gray", linewidth=0.8)
        gain.set(ylabel=f"gain over {REFERENCE}, points")
        for axes in (*recalls, gain):
            axes.set(xlabel="targets")
            log_ticks(axes, sizes, sizes)


def _gain(row: Mapping[str, Any], reference: Mapping[str, Any], metric: str) -> tuple[float, float]:
    """Return the points that a row gains, and half of their 95% interval over seeds if known."""
    known = row["difference"][REFERENCE][metric]
    if known is None:
        return 100 * (fmean(row["metrics"][metric]) - fmean(reference["metrics"][metric])), 0.0
    return 100 * known["mean"], 100 * (known["high"] - known["mean"])


STUDY = Study(NAME, NumberOfTargetsSettings, measure, _draw)
