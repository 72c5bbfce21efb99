"""What a miner is built from, small: random stale embeddings, and settings by name."""

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.miners import (
    Materials,
    Miner,
    NegativeCounts,
    Negatives,
    Queries,
    find_strategy,
)
from unstale.miners.negatives import build_negatives
from unstale.miners.staged import Staged
from unstale.search.auto import Choice
from unstale.settings import MiningSettings, RefreshSettings

# A buffer and a search are also settings, by a path and by a name; here they are the things.
_SETTINGS = {f.name for f in fields(MiningSettings)} - {"buffer", "search"}
_BASELINE = {f.name for f in fields(RefreshSettings)}
_BESIDE = set("filters cross_encoder given given_count".split())  # of `build_negatives`


def small_materials(targets: int = 60, dim: int = 8, **changes: Any) -> Materials:
    """Return a random buffer and settings; `changes` are settings or fields of `Materials`."""
    torch.manual_seed(0)
    buffer = TargetBuffer([torch.randn(targets, dim)])
    settings = MiningSettings(seed=3, steps=8, refreshes=4, corrector_hidden=16)
    settings = replace(settings, **{k: v for k, v in changes.items() if k in _SETTINGS})
    baseline = RefreshSettings(subset_size=40, sample_size=30, rank=4)
    baseline = replace(baseline, **{k: v for k, v in changes.items() if k in _BASELINE})
    others = {k: v for k, v in changes.items() if k not in _SETTINGS | _BASELINE}
    return Materials(
        settings=settings,
        targets=targets,
        baseline=baseline,
        **{"buffer": buffer, "search": Choice("exact", "float32", "a test")} | others,
    )


def small_miner(name: str, **changes: Any) -> Miner:
    """Build a strategy's miner, which mines already."""
    made = small_materials(**changes)
    return mining(find_strategy(name).build(made), made)


def mining(miner: Miner, made: Materials) -> Miner:
    """Let a miner that embeds on the way take its buffer as it is, and begin to mine."""
    if isinstance(miner, Staged):
        miner.refresh(1, lambda rows: made.cache[rows])
    return miner


def small_negatives(name: str, hard: int, uniform: int = 0, **changes: Any) -> Negatives:
    """Build a strategy's miner with its filters and the kinds of negatives beside it."""
    beside = {k: v for k, v in changes.items() if k in _BESIDE}
    others = {k: v for k, v in changes.items() if k not in _BESIDE}
    made = small_materials(uniform_negatives=uniform, **others)
    counts = NegativeCounts(hard, uniform)
    negatives = build_negatives(find_strategy(name), made, counts, **beside)
    mining(negatives.miner, made)
    return negatives


def encoded_rows(negatives: Negatives, queries: Queries) -> Tensor:
    """Mine; return all that is to be encoded: mined, uniform and given rows."""
    mined = negatives.mine(queries)
    return torch.cat([mined.hard, mined.uniform, mined.given], dim=1)
