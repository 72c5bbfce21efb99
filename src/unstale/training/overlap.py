"""What did the miner's cache hold at the end, over the whole corpus? One scan for all who ask."""

from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer

from unstale.encoders.embed import embed_queries, in_float32
from unstale.evaluation.evaluator import Evaluator
from unstale.evaluation.retrieve import own_rows
from unstale.miners.miner import Miner, Ranked
from unstale.search.best import TopK, agreement


@final
class LastLook(NamedTuple):
    """Some queries, and the best targets of each: truly, and in each of the miner's views."""

    rows: Int[ndarray, " q"]
    trained: int  # queries of training; the others, behind them, are of the split
    true: TopK
    ranked: Ranked


def last_look(
    model: SentenceTransformer,
    miner: Miner,
    evaluator: Evaluator,
    *,
    queries: int = 256,
    seed: int = 0,
) -> LastLook | None:
    """Rank the corpus as the miner sees it, as deep as it was just evaluated.

    None without a cache of the whole corpus.

    It encodes nothing but the queries, at most so many of training and of the split. These depend
    on the seed alone, so that strategies are compared on the same ones. All targets compete, known
    positives too.
    """
    if miner.covers() is not None:
        return None
    rows, found, dataset = [], [], evaluator.dataset
    for ranking in (evaluator.trained, evaluator.evaluated):
        chosen = np.random.default_rng(seed).permutation(len(ranking.rows))[:queries]
        rows.append(ranking.rows[chosen])
        found.append(TopK(*(part[chosen] for part in ranking.found)))
    asked = np.concatenate(rows)
    true = TopK(*(torch.cat(parts).to(model.device) for parts in zip(*found, strict=True)))
    with in_float32(model):  # as it was evaluated
        vectors = embed_queries(model, dataset.queries.take(asked)).to(model.device)
    ranked = miner.ranked(vectors, true.rows.shape[1], own_rows(dataset, asked).to(model.device))
    return None if ranked is None else LastLook(asked, len(rows[0]), true, ranked)


def corpus_overlap(look: LastLook, k: int = 10) -> dict[str, float]:
    """Compare the top k of the miner's views with the true one.

    Returns:
        The share of the true top k that each view held: `stale` and `searched` of the training
        queries, `eval_stale` and `eval_searched` of the split.
    """
    shares = {}
    views = {"stale": look.ranked.stale, "searched": look.ranked.searched}
    for prefix, part in (("", slice(look.trained)), ("eval_", slice(look.trained, None))):
        for name, view in views.items():
            shares[prefix + name] = agreement(look.true.rows[part, :k], view.rows[part, :k])
    return shares
