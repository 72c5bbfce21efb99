"""The trial: embed a sample once, train on it for a while with and without a corrector."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.data.dataset import RetrievalDataset
from unstale.doctor.advice import Findings, Tried
from unstale.doctor.false_negatives import find_false_negatives
from unstale.doctor.sample import PROBE, sample
from unstale.encoders.embed import dimension, embed_targets
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.miners import find_strategy
from unstale.results import RunResult
from unstale.training.cells import Cell, embed_once, run_cells
from unstale.training.job import train
from unstale.training.settings import TrainSettings

_PILOT = 8  # steps, to learn what one takes
_SHARE = 0.06  # of the time to embed the sample; it is embedded six times in all
_FEWEST, _MOST = 20, 300  # steps of a training
_READINGS = 5
# Steps of the widest corrected training that one of each takes: that, two of half the width (less
# where nothing mined is encoded) and stale.
_STEPS = 1 + 2 * 0.5 + 0.25


@final
class Trial(NamedTuple):
    """What a trial was made of, the entries of its trainings, and what it found."""

    dataset: RetrievalDataset
    runs: list[RunResult]
    findings: Findings


def run_trial(
    dataset: RetrievalDataset,
    encoder: Callable[[], SentenceTransformer],
    folder: Path,
    settings: TrainSettings,
    *,
    seconds: float = 120.0,
    steps: int | None = None,
    targets: int = 20_000,
) -> Trial:
    """Train four times from the same start: stale, corrected-free, and corrected with two widths.

    The learning rate stays constant, as it nearly does over the first steps of a long training.

    Args:
        dataset: The whole data; it is sampled.
        encoder: Loads the encoder, always at the same start.
        seconds: About how long to take; it decides the sample and the steps.
        steps: Steps of each training, instead of as many as there is time for.
        targets: The most targets to sample.
    """
    began = time.perf_counter()
    if seconds <= 0 or targets < 2 or (steps is not None and steps < 1):
        rule = "expected seconds above 0, at least 2 targets and 1 step"
        raise InputError(f"{rule}, not {seconds:g}, {targets} and {steps}")
    model = encoder()
    rate = _rate(model, sample(dataset, min(512, targets)))
    part = sample(dataset, min(targets, max(1000, int(_SHARE * seconds * rate))))
    common = replace(
        settings,
        steps=steps or _PILOT,
        trainer={"lr_scheduler_type": "constant"},
        eval_split=PROBE,
        probe_targets=2048,
    )
    common.check(part, model)
    refresh = embed_once(part, model, folder / "buffer")
    assert refresh is not None
    common, mined = replace(common, buffer=folder / "buffer"), max(1, settings.hard_negatives or 4)
    buffer = TargetBuffer.open(folder / "buffer")
    suspects = find_false_negatives(model, part, buffer, mined)

    def cell(kind: TrainSettings, name: str) -> Cell:
        def run(into: Path, resume: bool) -> RunResult:
            return train(part, encoder(), into, kind, resume=resume)

        return Cell(folder / name, _title(kind), run)

    def run_all(kinds: Sequence[TrainSettings], name: str) -> list[RunResult]:
        cells = [cell(kind, f"{name}{i}") for i, kind in enumerate(kinds)]
        return [done.entry for done in run_cells(cells, keep_models=False)]

    kinds = _kinds(common, dimension(model), mined)
    if steps is None:
        pilot = replace(kinds[-1], probe_targets=1, probe_queries=1)
        (done,) = run_all([pilot], "pilot")
        left = 0.9 * seconds - (time.perf_counter() - began) - len(kinds) * refresh
        steps = int(np.clip(left / (_STEPS * _step_seconds(done)), _FEWEST, _MOST))
    every = max(1, steps // _READINGS)
    kinds = [replace(kind, steps=steps, meter_steps=every) for kind in kinds]
    stale, *corrected = runs = run_all(kinds, "")
    tried = [
        Tried(kind.strategy, kind.corrector_widths[0],
              run.freshness[-1]["overlap_corrected"], _step_seconds(run))
        for kind, run in zip(kinds[1:], corrected, strict=True)
    ]  # fmt: skip
    overlaps = [(f["step"], f["overlap_stale"]) for f in stale.freshness]
    findings = Findings(overlaps, _step_seconds(stale), refresh, tried, *suspects)
    named = [replace(run, strategy=_title(kind)) for kind, run in zip(kinds, runs, strict=True)]
    return Trial(part, named, findings)


def _kinds(common: TrainSettings, dim: int, mined: int) -> list[TrainSettings]:
    narrow = replace(common, corrector_hidden=2 * dim)
    # Mined targets are not encoded: they train the queries as the corrector sees them.
    free = replace(narrow, free_negatives=mined, hard_negatives=0, uniform_negatives=0)
    return [
        replace(common, strategy="stale"),
        replace(free, strategy="corrected-free"),
        replace(narrow, strategy="corrected"),
        replace(common, strategy="corrected", corrector_hidden=4 * dim),
    ]


def _step_seconds(run: RunResult) -> float:
    """Return what a step of a training took, without the meter's readings."""
    return (run.seconds["training"] - run.seconds["metering"]) / run.steps


def _title(kind: TrainSettings) -> str:
    corrects = find_strategy(kind.strategy).corrects
    return f"{kind.strategy}, {kind.corrector_widths[0]:,} units" if corrects else kind.strategy


def _rate(model: SentenceTransformer, dataset: RetrievalDataset) -> float:
    """Measure how many targets a second the model embeds."""
    tokens = target_tokens(model, dataset, progress=False)
    rows = np.arange(len(tokens))
    embed_targets(model, tokens, rows[:16])  # the first call of anything is slow
    began = time.perf_counter()
    embed_targets(model, tokens, rows)
    return len(rows) / (time.perf_counter() - began)
