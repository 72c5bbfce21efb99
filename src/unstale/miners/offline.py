"""Mine for all queries of a split at once, for those who train elsewhere."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import Positives, Qrels, RetrievalDataset
from unstale.data.lines import count_bar
from unstale.distributed import exchange, gather, share
from unstale.encoders.embed import embed_queries
from unstale.miners.miner import Queries
from unstale.miners.negatives import Negatives
from unstale.miners.uniform import Uniform

Short = Literal["drop", "pad", "refill", "keep"]
_QUERIES = 512  # embedded and searched together


@final
@dataclass
class MinedSplit:
    """What was mined: a row of targets for each query, best first, -1 where there are too few."""

    queries: Int[ndarray, " q"]
    targets: Int[ndarray, "q k"]
    considered: int = 0
    missing: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


@torch.no_grad()
def mine_split(
    model: SentenceTransformer,
    dataset: RetrievalDataset,
    split: str,
    negatives: Negatives,
    k: int,
    *,
    progress: bool = True,
) -> MinedSplit:
    """Mine k targets for each query of a split, never one of its positives in any split.

    Queries are embedded one batch at a time, so that memory holds little beside the buffer. Of
    several processes each mines for some of the batches, and all get all that was mined.
    """
    queries = dataset.split(split).query_rows
    positives = Positives(dataset, list(dataset.qrels))
    mined = MinedSplit(queries, np.full((len(queries), k), -1, np.int64))
    part = share(-(-len(queries) // _QUERIES))  # in whole batches, whatever their number
    own = slice(part.start * _QUERIES, min(part.stop * _QUERIES, len(queries)))
    with count_bar(own.stop - own.start, "mining", "query", progress) as bar:
        for start in range(own.start, own.stop, _QUERIES):
            rows = queries[start : min(start + _QUERIES, own.stop)]
            vectors = embed_queries(model, dataset.queries.take(rows)).to(model.device)
            known = torch.from_numpy(positives(rows)).to(model.device)
            asked = Queries(vectors, torch.from_numpy(rows).to(model.device), known, 0)
            found, dropped = negatives.mine_hard(asked, k)
            mined.targets[start : start + len(rows)] = found.cpu().numpy()
            if dropped is not None:
                mined.considered += dropped.considered
                mined.missing += dropped.missing
                mined.dropped.update(dropped.counts)
            bar.update(len(rows))
    mined.targets = gather(torch.from_numpy(mined.targets[own])).numpy()
    mined.considered, mined.missing = sum(exchange(mined.considered)), sum(exchange(mined.missing))
    mined.dropped = sum(exchange(mined.dropped), Counter[str]())
    return mined


def complete(mined: MinedSplit, dataset: RetrievalDataset, how: Short) -> int:
    """Give every query as many negatives as were asked for, in place; return how many had fewer.

    Args:
        mined: What was mined.
        dataset: The data.
        how: `drop` leaves those queries out, `pad` repeats their last negative, `refill` draws
            others at random, and `keep` leaves them with what they have. A query without any
            negative cannot be padded, and is dropped.
    """
    short = (mined.targets < 0).any(axis=1)
    if how == "refill":
        uniform = Uniform(len(dataset.targets), seed=0)
        positives = Positives(dataset, list(dataset.qrels))
        for place in np.flatnonzero(short):
            query, row = mined.queries[place : place + 1], mined.targets[place]
            known, missing = np.union1d(positives(query), row), np.flatnonzero(row < 0)
            count = min(len(missing), len(dataset.targets) - int((known >= 0).sum()))
            rows, never = torch.from_numpy(query), torch.from_numpy(known)[None]
            asked = Queries(torch.zeros(1, 0), rows, never, step=0)
            row[missing[:count]] = uniform.mine(asked, count)[0].numpy()
    if how == "pad":
        places = np.arange(mined.targets.shape[1])
        last = np.where(mined.targets >= 0, places, -1).max(axis=1)
        padding = mined.targets[np.arange(len(last)), last]
        mined.targets[:] = np.where(mined.targets < 0, padding[:, None], mined.targets)
    if how != "keep":
        whole = (mined.targets >= 0).all(axis=1)
        mined.queries, mined.targets = mined.queries[whole], mined.targets[whole]
    return int(short.sum())


def with_negatives(dataset: RetrievalDataset, split: str, mined: MinedSplit) -> RetrievalDataset:
    """Return the dataset with the mined targets as a split's negatives, in place of given ones.

    Queries that are not among the mined ones are left out of the split.
    """
    old = dataset.split(split)
    keep = (old.grade > 0) & np.isin(old.query, mined.queries)
    found = mined.targets >= 0
    count = int(found.sum())
    qrels = Qrels(
        np.concatenate([old.query[keep], np.repeat(mined.queries, found.sum(axis=1))]),
        np.concatenate([old.target[keep], mined.targets[found]]),
        np.concatenate([old.grade[keep], np.zeros(count, np.int64)]),
    )
    return replace(dataset, qrels={**dataset.qrels, split: qrels})
