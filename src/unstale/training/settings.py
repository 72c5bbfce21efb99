"""Refuse what cannot work, before any long work."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sentence_transformers import SentenceTransformer

from unstale.bfloat16 import ensure_bfloat16
from unstale.buffer.buffer import TargetBuffer, read_manifest
from unstale.buffer.fingerprint import fingerprint
from unstale.corrector.losses import LossName
from unstale.data.dataset import RetrievalDataset, Texts
from unstale.distributed import world
from unstale.encoders.cross import open_cross_encoder
from unstale.encoders.embed import dimension
from unstale.encoders.load import tower_modules
from unstale.errors import InputError
from unstale.miners.filters import Filters
from unstale.miners.schedule import Schedule
from unstale.training.matryoshka import nested_dims
from unstale.training.start import default_batch
from unstale.training.strategies import check_filters, find_strategy


def check_settings(
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    *,
    strategy: str,
    steps: int,
    batch_size: int | None,
    hard_negatives: int | None,
    uniform_negatives: int | None,
    free_negatives: int | None,
    share_candidates: bool,
    given_negatives: int,
    scale: float | None,
    mini_batch_size: int,
    matryoshka_dims: Sequence[int],
    corrector_hidden: tuple[int, ...],
    corrector_weight: float,
    corrector_anchor: float,
    corrector_loss: LossName,
    memory: bool,
    refresh: str | int,
    full_refreshes: int = 2,
    subset_size: int = 0,
    sample_size: int = 0,
    rank: int = 64,
    rerank_depth: int = 256,
    refresh_below: float = 0.9,
    keep_checkpoints: int = 1,
    probe_queries: int,
    probe_targets: int,
    eval_split: str,
    filters: Filters | None,
    cross_encoder: str | None = None,
    buffer: Path | None = None,
    dtype: str = "float32",
    mapped: bool = False,
    trainer: dict[str, Any] | None = None,
) -> None:
    """Check the arguments of `train` against each other and against the data."""
    kind = find_strategy(strategy)
    check_devices(model)
    check_precision(model, trainer)
    pairs, targets = len(dataset.split("train").pairs), len(dataset.targets)
    if batch_size is None:
        batch_size = default_batch(model, pairs)
    check_processes(strategy, batch_size)
    dataset.split(eval_split)
    if mapped and (kind.writes or world() > 1):
        rule = "several processes share" if world() > 1 else f"{strategy} writes to"
        raise InputError(f"{rule} the buffer, which then cannot stay on disk (--mapped)")
    if steps < 1 or batch_size < 1:
        raise InputError(f"steps and batch size must be at least 1, not {steps} and {batch_size}")
    if pairs < batch_size:
        raise InputError(f"a batch of {batch_size} needs as many training pairs; there are {pairs}")
    if scale is not None and scale <= 0:
        raise InputError(f"expected scale > 0, not {scale}")
    least = {
        "given negatives": (given_negatives, 0),
        "mini-batch size": (mini_batch_size, 0),
        "corrector weight": (corrector_weight, 0),
        "corrector anchor": (corrector_anchor, 0),
        "full refreshes": (full_refreshes, 0),
        "subset size": (subset_size, 0),
        "sample size": (sample_size, 0),
        "rank": (rank, 1),
        "rerank depth": (rerank_depth, 1),
        "kept checkpoints": (keep_checkpoints, 1),
        "probe queries": (probe_queries, 1),
        "probe targets": (probe_targets, 1),
    }
    for name, (value, bound) in least.items():
        if value < bound:
            raise InputError(f"expected {name} >= {bound}, not {value}")
    if not 0 < refresh_below <= 1:
        raise InputError(f"expected an overlap to refresh below of 0 to 1, not {refresh_below}")
    if given_negatives and not len(dataset.split("train").negatives):
        raise InputError(f"{dataset.name} came with no negatives to take {given_negatives} of")
    nested_dims(matryoshka_dims, dimension(model))
    count = negatives(strategy, hard_negatives, uniform_negatives, free_negatives)
    if sum(count) >= targets:
        raise InputError(f"cannot take {sum(count)} negatives a query from {targets} targets")
    if 0 < subset_size < (mined := count.hard + count.free):
        raise InputError(f"cannot take {mined} negatives from a subset of {subset_size}")
    if count.free and not share_candidates:
        raise InputError("free negatives are shared by the batch: they need --share-candidates")
    if any(width < 1 for width in corrector_hidden):
        raise InputError(f"hidden layers need widths of at least 1, not {list(corrector_hidden)}")
    if kind.corrects and memory and corrector_loss == "ce" and not corrector_anchor:
        rule = "a memory needs an anchored corrector: residuals of different ages must compare"
        raise InputError(f"{rule}; use --no-memory or --corrector-anchor above 0")
    if filters is not None:
        filters.check(count.hard + count.free)
    if cross_encoder is not None:
        open_cross_encoder(cross_encoder)
    check_filters(strategy, filters or Filters(), veto=cross_encoder is not None)
    if isinstance(refresh, str):
        Schedule.parse(refresh)
    elif refresh < 0:
        raise InputError(f"cannot refresh {refresh} times")
    if kind.frozen:
        query = {id(p) for p in tower_modules(model, "query").parameters()}
        if any(id(p) in query for p in tower_modules(model, "document").parameters()):
            raise InputError(f"{strategy} needs separate towers (--towers separate)")
    check_buffer(strategy, model, dataset.targets, buffer, dtype)


def check_buffer(
    strategy: str, model: SentenceTransformer, targets: Texts, buffer: Path | None, dtype: str
) -> None:
    """Refuse a buffer that another encoder or corpus made, or that could not be refreshed."""
    if buffer is not None:
        TargetBuffer.open(buffer, fingerprint(model, targets))
        dtype = read_manifest(buffer)["dtype"]
    if dtype == "int8" and find_strategy(strategy).writes:
        which = f"--buffer {buffer}" if buffer is not None else "--dtype int8"
        rule = f"{strategy} writes to the buffer, which must be float32 or float16"
        raise InputError(f"{which}: {rule}")


class Negatives(NamedTuple):
    """How many negatives of each kind a query has."""

    hard: int  # mined, and encoded
    uniform: int  # drawn, and encoded
    free: int  # mined, and not encoded


def negatives(name: str, hard: int | None, uniform: int | None, free: int | None) -> Negatives:
    """Fill in what a strategy has by default; refuse free ones that nothing is known of."""
    strategy = find_strategy(name)
    usual = (strategy.hard, strategy.uniform, strategy.free)
    told = zip((hard, uniform, free), usual, strict=True)
    found = Negatives(*(default if count is None else count for count, default in told))
    if min(found) < 0:
        raise InputError(f"expected numbers of negatives >= 0, not {min(found)}")
    if found.free and not strategy.sees:
        rule = "it keeps no embedding of every target"
        raise InputError(f"{name} cannot have free negatives: {rule}")
    return found


def hidden_widths(hidden: int | Sequence[int]) -> tuple[int, ...]:
    """Read a width, or several, as the corrector's hidden layers; 0 stands for none.

    Example:
        >>> hidden_widths(768), hidden_widths([512, 512]), hidden_widths(0)
        ((768,), (512, 512), ())
    """
    widths = [hidden] if isinstance(hidden, int) else hidden
    return tuple(width for width in widths if width)


def check_devices(model: SentenceTransformer) -> None:
    """Refuse to leave devices idle: the Trainer would share the batch among all of them."""
    if world() == 1 and model.device.type == "cuda" and torch.cuda.device_count() > 1:
        rule = "set CUDA_VISIBLE_DEVICES to one of them, or start a process for each with torchrun"
        raise InputError(f"one process would use only one of the devices: {rule}")


def check_precision(model: SentenceTransformer, trainer: dict[str, Any] | None) -> None:
    """Refuse Trainer arguments that ask for bfloat16 on a processor that would die of it."""
    if (trainer or {}).get("bf16") and model.device.type == "cpu":
        ensure_bfloat16()


def check_processes(strategy: str, batch_size: int) -> None:
    """Refuse what several processes cannot share."""
    if batch_size % world():
        raise InputError(f"a batch of {batch_size} cannot be shared by {world()} processes")
    if world() > 1 and find_strategy(strategy).alone:
        rule = "it needs the whole buffer in one process"
        raise InputError(f"{strategy} does not run in several processes: {rule}")
