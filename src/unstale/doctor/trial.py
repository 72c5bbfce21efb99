"""The trial: embed a sample once, train on it for a while with and without a corrector."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.data.dataset import RetrievalDataset
from unstale.doctor.advice import Findings, Width
from unstale.doctor.false_negatives import find_false_negatives
from unstale.doctor.sample import PROBE, sample
from unstale.encoders.embed import dimension, embed_targets
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.training.cells import Cell, check_cell, embed_once, run_cells, training

_PILOT = 8  # steps, to learn what one takes
_SHARE = 0.06  # of the time to embed the sample; it is embedded five times in all
_FEWEST, _MOST = 20, 300  # steps of a training
_READINGS = 5


@final
class Trial(NamedTuple):
    """What a trial was made of, the entries of its trainings, and what it found."""

    dataset: RetrievalDataset
    runs: list[dict[str, Any]]
    findings: Findings


def run_trial(
    dataset: RetrievalDataset,
    encoder: Callable[[], SentenceTransformer],
    folder: Path,
    settings: Mapping[str, Any],
    *,
    seconds: float = 120.0,
    steps: int | None = None,
    targets: int = 20_000,
) -> Trial:
    """Train thrice from the same start: stale, and corrected with two widths.

    The learning rate stays constant, as it nearly does over the first steps of a long training.

    Args:
        dataset: The whole data; it is sampled.
        encoder: Loads the encoder at its start.
        folder: For what is embedded and trained.
        settings: Further arguments of `train`.
        seconds: About how long to take; it decides the sample and the steps.
        steps: Of each training, instead of as many as there is time for.
        targets: The most targets to sample.
    """
    began = time.perf_counter()
    if seconds <= 0 or targets < 2 or (steps is not None and steps < 1):
        raise InputError(
            "expected seconds above 0, at least 2 targets and 1 step, "
            f"not {seconds:g}, {targets} and {steps}"
        )
    model = encoder()
    rate = _rate(model, sample(dataset, min(512, targets)))
    part = sample(dataset, min(targets, max(1000, int(_SHARE * seconds * rate))))
    constant = {"trainer": {"lr_scheduler_type": "constant"}}
    common = {**settings, **constant, "eval_split": PROBE, "probe_queries": 128}
    common |= {"probe_targets": 2048, "buffer": folder / "buffer"}
    check_cell(part, model, {**common, "buffer": None, "steps": steps or _PILOT})
    refresh = embed_once(part, model, folder / "buffer")
    assert refresh is not None
    buffer = TargetBuffer.open(folder / "buffer")
    false = find_false_negatives(model, part, buffer, max(1, settings.get("hard_negatives", 4)))

    widths = [factor * dimension(model) for factor in (2, 4)]
    if steps is None:
        pilot = _corrected(widths[-1]) | {"steps": _PILOT, "probe_targets": 1, "probe_queries": 1}
        cell = Cell(folder / "pilot", "pilot", training(part, encoder, {**common, **pilot}))
        (done,) = run_cells([cell], keep_models=False)
        left = 0.9 * seconds - (time.perf_counter() - began) - 3 * refresh
        # Stale, half the width and the whole width take about 0.25, 0.5 and 1 of the widest's step.
        steps = int(np.clip(left / (1.75 * step_seconds(done.entry)), _FEWEST, _MOST))
    kinds = {"stale": {"strategy": "stale"}}
    kinds |= {f"corrected, {units:,} units": _corrected(units) for units in widths}
    common |= {"steps": steps, "meter_steps": max(1, steps // _READINGS)}
    cells = [
        Cell(folder / str(i), name, training(part, encoder, {**common, **kind}))
        for i, (name, kind) in enumerate(kinds.items())
    ]
    runs = [done.entry for done in run_cells(cells, keep_models=False)]
    stale, *corrected = runs
    read = [
        Width(units, run["freshness"][-1]["overlap_corrected"], step_seconds(run))
        for units, run in zip(widths, corrected, strict=True)
    ]
    overlaps = [(f["step"], f["overlap_stale"]) for f in stale["freshness"]]
    findings = Findings(overlaps, step_seconds(stale), refresh, read, false.above, false.twins)
    named = [run | {"strategy": name} for name, run in zip(kinds, runs, strict=True)]
    return Trial(part, named, findings)


def step_seconds(run: Mapping[str, Any]) -> float:
    """Return what a step of a training took, without the meter's readings."""
    return (run["seconds"]["training"] - run["seconds"]["metering"]) / run["steps"]


def _corrected(units: int) -> dict[str, Any]:
    return {"strategy": "corrected", "corrector_hidden": (units,)}


def _rate(model: SentenceTransformer, dataset: RetrievalDataset) -> float:
    """Measure how many targets a second the model embeds."""
    tokens = target_tokens(model, dataset, progress=False)
    rows = np.arange(len(tokens))
    embed_targets(model, tokens, rows[:16])  # the first call of anything is slow
    began = time.perf_counter()
    embed_targets(model, tokens, rows)
    return len(rows) / (time.perf_counter() - began)
