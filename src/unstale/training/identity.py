"""What a run is made of: a checkpoint of other data or another buffer must not be resumed."""

import hashlib
import logging
from pathlib import Path

import torch
from jaxtyping import Int
from numpy import ndarray

from unstale.data.dataset import RetrievalDataset
from unstale.distributed import world
from unstale.errors import InputError
from unstale.search.auto import Choice

Identity = dict[str, str | int]
_LOG = logging.getLogger(__name__)
_MAY_DIFFER = {"torch", "threads", "processes"}  # a run may resume, its last digits may change


def identity(
    dataset: RetrievalDataset,
    trained: Int[ndarray, "n ..."],
    buffer: str | None,
    search: Choice | None,
) -> Identity:
    """Describe what the weights at a step depend on, besides the flags."""
    pairs = hashlib.sha256(trained.tobytes()).hexdigest()
    found: Identity = {"targets": dataset.targets.digest, "queries": dataset.queries.digest}
    found |= {"pairs": pairs, "search": f"{search.mode} {search.precision}" if search else "none"}
    if buffer is not None:
        found["buffer"] = buffer
    found |= {"torch": torch.__version__, "threads": torch.get_num_threads()}
    return found | {"processes": world()}


def check_identity(checkpoint: Path, found: Identity, expected: Identity) -> None:
    """Refuse a checkpoint that was made of something else; warn where only digits can change."""
    for name, value in expected.items():
        if found.get(name) == value:
            continue
        if name not in _MAY_DIFFER:
            was = f"was {found.get(name)}, is {value} now"
            raise InputError(f"cannot resume {checkpoint}: {name} changed since ({was})")
        _LOG.warning(
            "%s was %s at %s and is %s now: the run resumes, but its last digits may differ",
            name, found.get(name), checkpoint, value,
        )  # fmt: skip
