"""The trial: embed a sample once, train on it for a while with and without a corrector."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

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
from unstale.training.cells import Cell, check_cell, embed_once, run_cells, training

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
    """Train four times from the same start: stale, corrected-free, and corrected with two widths.

    The learning rate stays constant, as it nearly does over the first steps of a long training.

    Args:
        dataset: The whole data; it is sampled.
        encoder: Loads the encoder at its start.
        folder: For what is embedded and trained.
        settings: Further settings of the trainings.
        seconds: About how long to take; it decides the sample and the steps.
        steps: Steps of each training, instead of as many as there is time for.
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
    mined = max(1, settings.get("hard_negatives", 4))
    buffer = TargetBuffer.open(folder / "buffer")
    false = find_false_negatives(model, part, buffer, mined)

    def train(kinds: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
        cells = [
            Cell(folder / f"{name}{i}", _title(kind), training(part, encoder, {**common, **kind}))
            for i, kind in enumerate(kinds)
        ]
        return [done.entry for done in run_cells(cells, keep_models=False)]

    narrow, wide = 2 * dimension(model), 4 * dimension(model)
    kinds = [
        {"strategy": "stale"},
        # Nothing that is mined is encoded: it trains the queries as the corrector sees it.
        {"strategy": "corrected-free", "corrector_hidden": (narrow,), "free_negatives": mined}
        | {"hard_negatives": 0, "uniform_negatives": 0},
        {"strategy": "corrected", "corrector_hidden": (narrow,)},
        {"strategy": "corrected", "corrector_hidden": (wide,)},
    ]
    if steps is None:
        pilot = {"steps": _PILOT, "probe_targets": 1, "probe_queries": 1}
        (done,) = train([kinds[-1] | pilot], "pilot")
        left = 0.9 * seconds - (time.perf_counter() - began) - len(kinds) * refresh
        steps = int(np.clip(left / (_STEPS * step_seconds(done)), _FEWEST, _MOST))
    common |= {"steps": steps, "meter_steps": max(1, steps // _READINGS)}
    stale, *corrected = runs = train(kinds, "")
    tried = [
        Tried(kind["strategy"], kind["corrector_hidden"][0],
              run["freshness"][-1]["overlap_corrected"], step_seconds(run))
        for kind, run in zip(kinds[1:], corrected, strict=True)
    ]  # fmt: skip
    overlaps = [(f["step"], f["overlap_stale"]) for f in stale["freshness"]]
    findings = Findings(overlaps, step_seconds(stale), refresh, tried, false.above, false.twins)
    named = [run | {"strategy": _title(kind)} for kind, run in zip(kinds, runs, strict=True)]
    return Trial(part, named, findings)


def step_seconds(run: Mapping[str, Any]) -> float:
    """Return what a step of a training took, without the meter's readings."""
    return (run["seconds"]["training"] - run["seconds"]["metering"]) / run["steps"]


def _title(kind: Mapping[str, Any]) -> str:
    units = "".join(f", {units:,} units" for units in kind.get("corrector_hidden", ()))
    return f"{kind['strategy']}{units}"


def _rate(model: SentenceTransformer, dataset: RetrievalDataset) -> float:
    """Measure how many targets a second the model embeds."""
    tokens = target_tokens(model, dataset, progress=False)
    rows = np.arange(len(tokens))
    embed_targets(model, tokens, rows[:16])  # the first call of anything is slow
    began = time.perf_counter()
    embed_targets(model, tokens, rows)
    return len(rows) / (time.perf_counter() - began)
