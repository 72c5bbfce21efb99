"""How much of the true top 10 did the miner's cache hold at the end, over the whole corpus?"""

import numpy as np
from sentence_transformers import SentenceTransformer

from unstale.encoders.embed import embed_queries
from unstale.evaluation.evaluator import Evaluator
from unstale.evaluation.retrieve import own_rows
from unstale.miners.miner import Miner
from unstale.search.best import agreement


def corpus_overlap(
    model: SentenceTransformer,
    miner: Miner,
    evaluator: Evaluator,
    *,
    queries: int = 256,
    k: int = 10,
    seed: int = 0,
) -> dict[str, float] | None:
    """Compare the top k of the miner's views with the true one, which was just evaluated.

    It encodes nothing but the queries. All targets compete, known positives too. The queries depend
    on the seed alone, so that strategies are compared on the same ones.

    Returns:
        The share of the true top k that each view held: `stale` and `searched` of the training
        queries, `eval_stale` and `eval_searched` of the split; None if the miner caches nothing.
    """
    shares = {}
    for prefix, (rows, found) in (("", evaluator.trained), ("eval_", evaluator.evaluated)):
        chosen = np.random.default_rng(seed).permutation(len(rows))[:queries]
        true = found.rows[chosen, :k].to(model.device)
        vectors = embed_queries(model, evaluator.dataset.queries.take(rows[chosen]))
        own = own_rows(evaluator.dataset, rows[chosen]).to(model.device)
        ranked = miner.ranked(vectors.to(model.device), true.shape[1], own)
        if ranked is None:
            return None
        shares[f"{prefix}stale"] = agreement(true, ranked.stale.rows)
        shares[f"{prefix}searched"] = agreement(true, ranked.searched.rows)
    return shares
