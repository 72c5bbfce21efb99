"""Which queries of the data guide a migration, and which only judge it?"""

import logging
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer

from unstale.cli.options_correct import Correct
from unstale.data.dataset import Qrels, RetrievalDataset
from unstale.encoders.embed import embed_queries
from unstale.errors import InputError
from unstale.migrate.job import Asked

_LOG = logging.getLogger(__name__)


class Parted(NamedTuple):
    """Rows of queries, and the answers of those that judge if there are any."""

    guide: Int[ndarray, " g"]
    check: Int[ndarray, " c"]
    qrels: Qrels | None
    split: str | None


def part_queries(chosen: Correct, dataset: RetrievalDataset) -> Parted:
    """Let the queries of one split judge, and those of the others guide if that is asked for.

    Where there is one split alone, or no qrels, half of the queries guide.
    """
    wanted = _guided_by(chosen)
    generator = np.random.default_rng(chosen.seed)
    split, qrels = None, None
    if chosen.split is not None or dataset.qrels:
        split = chosen.split or ("test" if "test" in dataset.qrels else next(iter(dataset.qrels)))
        qrels = dataset.split(split)
    if not len(dataset.queries):
        _LOG.warning("%s has no queries: held-out targets ask in their place", dataset.name)
    elif qrels is None:
        _LOG.warning("%s has no qrels: recall cannot be measured", dataset.name)
    rows = np.arange(len(dataset.queries)) if qrels is None else qrels.query_rows
    check = generator.permutation(rows)
    others = [q.query_rows for name, q in dataset.qrels.items() if name != split]
    guide = np.setdiff1d(np.concatenate(others), check) if others else check[:0]
    if wanted and not len(guide):
        guide, check = np.split(check, [len(check) // 2])
    if wanted and not len(guide):
        rule = "queries to choose or to learn by, and others to validate on"
        raise InputError(f"{wanted} needs {rule}; {dataset.name} has {len(rows)} in all")
    guide = generator.permutation(guide)[: chosen.queries if wanted else 0]
    return Parted(np.sort(guide), np.sort(check[: chosen.queries]), qrels, split)


def _guided_by(chosen: Correct) -> str | None:
    """Name the flag that needs queries beyond those that judge."""
    if chosen.sampling == "queries":
        return "--sampling queries"
    if chosen.re_embed and chosen.re_embed_by == "retrieved":
        return "--re-embed-by retrieved"
    return "--loss ce" if chosen.loss == "ce" else None


def ask(model: SentenceTransformer, dataset: RetrievalDataset, parted: Parted) -> Asked:
    """Embed the queries with the new encoder."""
    guide, check = (
        embed_queries(model, dataset.queries.take(rows)) if len(rows) else None
        for rows in (parted.guide, parted.check)
    )
    judged = parted.qrels is not None
    return Asked(guide, check, parted.qrels, parted.check if judged else None)
