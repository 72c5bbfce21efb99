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
    """Build a strategy's miner."""
    return find_strategy(name).build(small_materials(**changes))


def small_negatives(name: str, hard: int, uniform: int = 0, **changes: Any) -> Negatives:
    """Build a strategy's miner with its filters and the kinds of negatives beside it."""
    beside = {k: v for k, v in changes.items() if k in _BESIDE}
    others = {k: v for k, v in changes.items() if k not in _BESIDE}
    return build_negatives(
        find_strategy(name),
        small_materials(uniform_negatives=uniform, **others),
        NegativeCounts(hard, uniform, 0),
        **beside,
    )


def encoded_rows(negatives: Negatives, queries: Queries) -> Tensor:
    """Mine; return all that is to be encoded: mined, uniform and given rows."""
    mined = negatives.mine(queries)
    return torch.cat([mined.encoded, mined.uniform, mined.given], dim=1)
