"""The trial: embed a sample once, train on it for a while with and without a corrector."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import RetrievalDataset
from unstale.doctor.advice import Findings, Tried
from unstale.doctor.sample import PROBE, sample
from unstale.encoders.embed import embed_targets
from unstale.encoders.tokenise import target_tokens
from unstale.results import RunResult
from unstale.shown import say
from unstale.training.cells import embed_once
from unstale.training.job import train
from unstale.training.settings import TrainSettings

_PILOT = 8  # steps, to learn what one takes
_SHARE = 0.06  # of the time to embed the sample; it is embedded five times in all
_FEWEST, _MOST = 20, 300  # steps of a training
_READINGS = 5
_STEPS = 2.5  # steps of a corrected training that one of each training takes, at most


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
    seconds: float,
    steps: int | None,
    targets: int,
) -> Trial:
    """Train three times from the same start: stale, corrected-free and corrected.

    The learning rate stays constant, as it nearly does over the first steps of a long training.

    Args:
        dataset: The whole data; it is sampled.
        encoder: Loads the encoder, always at the same start.
        seconds: About how long to take; it decides the sample and the steps.
        steps: Steps of each training, instead of as many as there is time for.
        targets: The most targets to sample.
    """
    began = time.perf_counter()
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
    # Without encoding what is mined: it trains the queries as the corrector sees it.
    mined = max(1, settings.hard_negatives or 4)
    free = replace(common, free_negatives=mined, hard_negatives=0, uniform_negatives=0)
    kinds = [
        replace(kind, strategy=name, buffer=folder / "buffer")
        for name, kind in (("stale", common), ("corrected-free", free), ("corrected", common))
    ]

    def run(kind: TrainSettings, name: str) -> RunResult:
        say(name, flush=True)
        return train(part, encoder(), folder / name, kind)

    if steps is None:
        pilot = replace(kinds[-1], probe_targets=1, probe_queries=1)
        pace = _step_seconds(run(pilot, "pilot"))
        left = 0.9 * seconds - (time.perf_counter() - began) - len(kinds) * refresh
        steps = int(np.clip(left / (_STEPS * pace), _FEWEST, _MOST))
    every = max(1, steps // _READINGS)
    kinds = [replace(kind, steps=steps, meter_steps=every) for kind in kinds]
    stale, *corrected = runs = [run(kind, kind.strategy) for kind in kinds]
    tried = [
        Tried(done.strategy, done.freshness[-1]["overlap_corrected"], _step_seconds(done))
        for done in corrected
    ]
    overlaps = [(f["step"], f["overlap_stale"]) for f in stale.freshness]
    return Trial(part, runs, Findings(overlaps, _step_seconds(stale), refresh, tried))


def _step_seconds(run: RunResult) -> float:
    """Return what a step of a training took, without the meter's readings."""
    return (run.seconds["training"] - run.seconds["metering"]) / run.steps


def _rate(model: SentenceTransformer, dataset: RetrievalDataset) -> float:
    """Measure how many targets a second the model embeds."""
    tokens = target_tokens(model, dataset, progress=False)
    rows = np.arange(len(tokens))
    embed_targets(model, tokens, rows[:16])  # the first call of anything is slow
    began = time.perf_counter()
    embed_targets(model, tokens, rows)
    return len(rows) / (time.perf_counter() - began)
