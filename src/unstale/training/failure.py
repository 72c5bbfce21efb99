"""Numbers that went wrong: where, with which batch, and which checkpoint to resume from."""

import logging
from collections.abc import Mapping
from pathlib import Path

from unstale.data.dataset import RetrievalDataset
from unstale.errors import RunError
from unstale.files import write_json

_LOG = logging.getLogger(__name__)
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
    before: Mapping[str, float], after: Mapping[str, float], learning_rate: float
) -> None:
    """Say that a run has lost more than half of what its start could do."""
    name = "ndcg@10"
    if after.get(name, 1.0) < before.get(name, 0.0) / 2:
        _LOG.warning(
            "THE ENCODER GOT WORSE: %s was %.3f before training and is %.3f after it. A learning "
            "rate of %g may be too high.",
            name, before[name], after[name], learning_rate,
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
