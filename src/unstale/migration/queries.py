"""Which queries of the data guide a migration, and which only judge it?

What was chosen for a query cannot be judged by it: it would look too good.
"""

import logging
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.data.dataset import Qrels, RetrievalDataset
from unstale.encoders.embed import embed_queries
from unstale.errors import InputError
from unstale.migration.settings import MigrateSettings

_LOG = logging.getLogger(__name__)


class AskedQueries(NamedTuple):
    """Fresh query vectors: some may choose, others only judge."""

    guide: Float[Tensor, "g e"] | None
    check: Float[Tensor, "c e"] | None
    qrels: Qrels | None = None  # the answers of the queries that judge
    rows: Int[ndarray, " c"] | None = None  # which queries those are


class Parted(NamedTuple):
    """Rows of queries, and the answers of those that judge if there are any."""

    guide: Int[ndarray, " g"]
    check: Int[ndarray, " c"]
    qrels: Qrels | None
    split: str | None

    def embed(self, model: SentenceTransformer, dataset: RetrievalDataset) -> AskedQueries:
        """Embed the queries with the new encoder."""
        sides = (dataset.queries.take(rows) for rows in (self.guide, self.check))
        guide, check = (embed_queries(model, texts) if texts else None for texts in sides)
        return AskedQueries(guide, check, self.qrels, self.check)


def logged(dataset: RetrievalDataset) -> Int[ndarray, " n"]:
    """List the queries without qrels, where others have some: a log of what users ask."""
    judged = [qrels.query for qrels in dataset.qrels.values()]
    every = np.arange(len(dataset.queries))
    return np.setdiff1d(every, np.concatenate(judged)) if judged else every[:0]


def part_queries(
    settings: MigrateSettings, dataset: RetrievalDataset, log: Int[ndarray, " n"]
) -> Parted:
    """Let the queries of one split judge, and others guide if targets are re-embedded.

    The log guides. Without one the queries of the other splits do, and where there is only one
    split, or no qrels, half of the queries.
    """
    generator = np.random.default_rng(settings.seed)
    split, qrels = None, None
    if settings.split is not None or dataset.qrels:
        split = settings.split or ("test" if "test" in dataset.qrels else next(iter(dataset.qrels)))
        qrels = dataset.split(split)
    if not len(dataset.queries):
        _LOG.warning("%s has no queries: held-out targets ask in their place", dataset.name)
    elif qrels is None:
        _LOG.warning("%s has no qrels: recall cannot be measured", dataset.name)
    rows = np.arange(len(dataset.queries)) if qrels is None else qrels.query_rows
    check = generator.permutation(rows)
    others = [q.query_rows for name, q in dataset.qrels.items() if name != split]
    guide = log if len(log) else np.setdiff1d(np.concatenate([check[:0], *others]), check)
    if settings.re_embed and not len(guide):
        guide, check = np.split(check, [len(check) // 2])
    if settings.re_embed and not len(guide):
        rule = "needs queries to choose by, and others to validate on"
        raise InputError(f"--re-embed {rule}; {dataset.name} has {len(rows)} in all")
    guide = generator.permutation(guide)[: settings.queries if settings.re_embed else 0]
    return Parted(np.sort(guide), np.sort(check[: settings.queries]), qrels, split)
