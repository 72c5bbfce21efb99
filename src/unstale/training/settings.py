"""Refuse what cannot work, before any long work."""

from pathlib import Path

from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.fingerprint import fingerprint
from unstale.data.dataset import RetrievalDataset
from unstale.encoders.load import tower_modules
from unstale.errors import InputError
from unstale.miners.schedule import Schedule
from unstale.training.strategies import find_strategy


def check_settings(
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    *,
    strategy: str,
    steps: int,
    batch_size: int,
    hard_negatives: int,
    uniform_negatives: int,
    scale: float,
    corrector_hidden: tuple[int, ...],
    corrector_weight: float,
    corrector_anchor: float,
    refresh: str | int,
    eval_split: str,
    buffer: Path | None,
) -> None:
    """Check the arguments of `train` against each other and against the data."""
    kind = find_strategy(strategy)
    pairs, targets = len(dataset.split("train").pairs), len(dataset.targets)
    dataset.split(eval_split)
    if steps < 1 or batch_size < 1:
        raise InputError(f"steps and batch size must be at least 1, not {steps} and {batch_size}")
    if pairs < batch_size:
        raise InputError(f"a batch of {batch_size} needs as many training pairs; there are {pairs}")
    weights = {"corrector weight": corrector_weight, "corrector anchor": corrector_anchor}
    counts = {"hard negatives": hard_negatives, "uniform negatives": uniform_negatives}
    if scale <= 0:
        raise InputError(f"expected scale > 0, not {scale}")
    for name, value in (counts | weights).items():
        if value < 0:
            raise InputError(f"expected {name} >= 0, not {value}")
    if (negatives := hard_negatives + uniform_negatives) >= targets:
        raise InputError(f"cannot take {negatives} negatives a query from {targets} targets")
    if any(width < 1 for width in corrector_hidden):
        raise InputError(f"hidden layers need widths of at least 1, not {list(corrector_hidden)}")
    if isinstance(refresh, str):
        Schedule.parse(refresh)
    elif refresh < 0:
        raise InputError(f"cannot refresh {refresh} times")
    if kind.frozen:
        query = {id(p) for p in tower_modules(model, "query").parameters()}
        if any(id(p) in query for p in tower_modules(model, "document").parameters()):
            raise InputError(f"{strategy} needs separate towers (--towers separate)")
    if buffer is not None:
        TargetBuffer.open(buffer, fingerprint(model, dataset.targets))
