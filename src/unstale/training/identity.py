"""What is a run made of? What was made of anything else is neither resumed nor reused.

One description of the data, the models and the settings is kept in checkpoints and finished
cells. It is compared whenever one of them is used again, and between processes at the start.
"""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import torch
from jaxtyping import Int
from numpy import ndarray

from unstale import __version__
from unstale.data.dataset import RetrievalDataset
from unstale.declare import flag
from unstale.distributed import world
from unstale.errors import InputError
from unstale.search.auto import Choice
from unstale.settings import JobSettings
from unstale.training.arguments import recorded

Identity = Mapping[str, str]
FORMAT = "2"  # of checkpoints and cells: raised when this version cannot go on with older ones
_LOG = logging.getLogger(__name__)
# A run may resume with these, but its last digits may change.
_MAY_DIFFER = {"torch", "threads", "processes", "unstale"}


def made_of(
    dataset: RetrievalDataset, weights: str, settings: JobSettings, **more: str
) -> dict[str, str]:
    """Describe what all runs with some settings depend on: the data, the models, the settings.

    Args:
        weights: A digest of the encoder as it is at the start.
        more: Whatever else an algorithm starts from.
    """
    found = {"format": FORMAT, **dataset.identity, "model": weights, **more}
    for declared in fields(settings):
        value = getattr(settings, declared.name)
        if declared.name == "trainer":
            value = recorded(value)
        if not (declared.metadata.get("changeable") or declared.metadata.get("local")):
            found[flag(declared.name)] = str(list(value) if isinstance(value, tuple) else value)
    return found


def identity(
    shared: Identity,
    trained: Int[ndarray, "n ..."],
    buffer: str | None,
    search: Choice | None,
) -> Identity:
    """Add what one run depends on besides: its pairs, its buffer, its search, the machine."""
    found = dict(shared) | {"pairs": hashlib.sha256(trained.tobytes()).hexdigest()}
    found["search"] = f"{search.mode} {search.precision}" if search else "none"
    if buffer is not None:
        found["buffer"] = buffer
    found |= {"torch": torch.__version__, "threads": str(torch.get_num_threads())}
    return found | {"processes": str(world()), "unstale": __version__}


def check_identity(place: Path, found: Identity, expected: Identity) -> None:
    """Refuse what was made of something else; warn where only digits can change."""
    if (was := found.get("format")) != FORMAT:
        rule = f"another version of unstale wrote it (format {was}; this one has {FORMAT})"
        raise InputError(f"cannot resume {place}: {rule}; use that version, or start anew")
    for name, value in expected.items():
        if found.get(name) == value:
            continue
        if name not in _MAY_DIFFER:
            was = f"was {found.get(name)}, is {value} now"
            raise InputError(f"cannot resume {place}: {name} changed since ({was})")
        _LOG.warning(
            "%s was %s at %s and is %s now: the run resumes, but its last digits may differ",
            name, found.get(name), place, value,
        )  # fmt: skip
