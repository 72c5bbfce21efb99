"""Measure a ranking against qrels, by ir_measures; read and write TREC runs."""

import logging
import re
from pathlib import Path
from urllib.parse import quote

import ir_measures
import numpy as np
from ir_measures import RR, R, Success, nDCG
from jaxtyping import Float, Int
from numpy import ndarray

from unstale.data.dataset import Qrels, RetrievalDataset
from unstale.files import atomic_file
from unstale.search.best import TopK

_LOG = logging.getLogger(__name__)
_SPACE = re.compile(r"\s")
CUTOFFS = (1, 5, 10, 20, 100)
# Recall is the share of a query's relevant targets among the first k, success tells whether there
# is any. They are the same where each query has one relevant target.
MEASURES = {f"recall@{k}": R @ k for k in CUTOFFS} | {"mrr@10": RR @ 10, "ndcg@10": nDCG @ 10}
MEASURES |= {f"success@{k}": Success @ k for k in CUTOFFS}


def measure(
    qrels: Qrels, query_rows: Int[ndarray, " q"], found: TopK
) -> dict[str, Float[ndarray, " q"]]:
    """Return every metric of every query, as fractions, in the order of `query_rows`."""
    ids = [str(query) for query in query_rows.tolist()]
    judged: dict[str, dict[str, int]] = {id: {} for id in ids}
    keep = np.isin(qrels.query, query_rows)
    columns = [column[keep].tolist() for column in (qrels.query, qrels.target, qrels.grade)]
    for query, target, grade in zip(*columns, strict=True):
        judged[str(query)][str(target)] = max(0, grade)
    run = {
        id: dict(zip(map(str, rows), scores, strict=True))
        for id, rows, scores in zip(ids, found.rows.tolist(), found.scores.tolist(), strict=True)
    }
    place = {id: i for i, id in enumerate(ids)}
    names = {m: name for name, m in MEASURES.items()}
    values = {name: np.zeros(len(query_rows)) for name in MEASURES}
    for metric in ir_measures.iter_calc(list(MEASURES.values()), judged, run):
        values[names[metric.measure]][place[metric.query_id]] = metric.value
    return values


def means(values: dict[str, Float[ndarray, " q"]]) -> dict[str, float]:
    """Average each metric over the queries."""
    return {name: float(v.mean()) for name, v in values.items()}


def write_run(
    path: Path, dataset: RetrievalDataset, query_rows: Int[ndarray, " q"], found: TopK, tag: str
) -> None:
    """Write a ranking as a TREC run file, with the dataset's own ids.

    Spaces divide its fields: those in ids are percent-encoded, with a warning.
    """
    ids = dataset.query_ids.take(query_rows)
    odd: dict[str, str] = {}
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for query, rows, scores in zip(ids, found.rows.numpy(), found.scores.tolist(), strict=True):
            query = _field(query, odd)
            targets = [_field(target, odd) for target in dataset.target_ids.take(rows)]
            for rank, (target, score) in enumerate(zip(targets, scores, strict=True), 1):
                file.write(f"{query} Q0 {target} {rank} {score:.6f} {tag}\n")
    if odd:
        what = "ids hold spaces, which a run cannot: written as"
        _LOG.warning("%s: %d %s %r", path.name, len(odd), what, next(iter(odd.values())))


def _field(id: str, odd: dict[str, str]) -> str:
    """Return an id as a run holds it, and note one that is changed."""
    if not _SPACE.search(id):
        return id
    return odd.setdefault(id, re.sub(r"[\s%]", lambda found: quote(found[0]), id))
