"""Numbers that went wrong: where, with which batch, and which checkpoint to resume from."""

import logging
from collections.abc import Mapping
from pathlib import Path

from unstale.data.dataset import RetrievalDataset
from unstale.errors import RunError
from unstale.files import write_json

_LOG = logging.getLogger(__name__)
_MEMORISED = 0.25  # of recall@1 on training queries above that of the split
FAILURE = "failure.json"
_SHOWN = 8  # ids to name in the message; the file has all


class NotFiniteError(RunError):
    """Report NaN or infinity, before a step could spread it into the weights."""

    def __init__(
        self, what: str, step: int, queries: list[int], targets: list[int] | None = None
    ) -> None:
        super().__init__(f"NaN or infinity in {what} at step {step + 1}")
        self.step = step
        self.queries = queries
        self.targets = targets or []


def warn_of_harm(
    before: Mapping[str, float],
    after: Mapping[str, float],
    learning_rate: float,
    trained: Mapping[str, float],
) -> None:
    """Say that a run ranks worse than its start, and what may be the cause.

    Args:
        trained: The metrics of training queries after the training.
    """
    fell = [name for name in ("ndcg@10", "recall@1") if after.get(name, 1.0) < before.get(name, 0)]
    if not fell:
        return
    name, cause = fell[0], f"A learning rate of {learning_rate:g} may be too high."
    memorised = trained.get("recall@1", 0.0)
    if memorised - after.get("recall@1", 0.0) > _MEMORISED:
        cause = f"It finds {memorised:.0%} of its training pairs first: it memorises them. "
        cause += "Train for fewer --epochs, on more pairs, or with a smaller --learning-rate."
    lost = after[name] < before[name] / 2
    _LOG.warning(
        "%s: %s was %.3f before training and is %.3f after it. %s",
        "THE ENCODER GOT WORSE" if lost else "the encoder got worse", name, before[name],
        after[name], cause,
    )  # fmt: skip


def explain(
    error: NotFiniteError, dataset: RetrievalDataset, output: Path, checkpoint: Path | None
) -> RunError:
    """Name the batch by its ids and the checkpoint to resume from; write both to a file."""
    queries = dataset.query_ids.take(error.queries)
    targets = dataset.target_ids.take(error.targets)
    found = {"error": str(error), "step": error.step + 1, "query_ids": queries}
    found |= {"target_ids": targets, "checkpoint": str(checkpoint) if checkpoint else None}
    write_json(output / FAILURE, found)
    parts = [str(error), f"the batch's queries: {_some(queries)}"]
    if targets:
        parts.append(f"targets: {_some(targets)}")
    parts.append(f"the last good checkpoint: {checkpoint or 'none'}")
    parts.append(f"all of it: {output / FAILURE}")
    return RunError("; ".join(parts))


def _some(ids: list[str]) -> str:
    shown = ", ".join(map(ascii, ids[:_SHOWN]))
    return shown if len(ids) <= _SHOWN else f"{shown} and {len(ids) - _SHOWN} more"
