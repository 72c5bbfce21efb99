"""Ids of the package ir_datasets, such as `ir_datasets:beir/scifact/test`.

Several ids of one corpus, parted by commas, become its splits.
"""

from typing import Any

from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.format import Format, Location, split_of
from unstale.data.gather import Gatherer, Target
from unstale.data.lines import count_bar
from unstale.errors import InputError


def _read(source: Location) -> RetrievalDataset:
    ids = source.place.split(",")
    parts = {split_of(id) or "test": _load(id) for id in ids}
    if len(parts) < len(ids):
        raise InputError(f"{source.place}: two of these ids would be the split {list(parts)}")
    gatherer = Gatherer()
    corpus = next(iter(parts.values()))
    with count_bar(corpus.docs_count() or 0, ids[0], "target", source.progress) as bar:
        for i, doc in enumerate(corpus.docs_iter(), 1):
            gatherer.corpus(_target(doc), f"{ids[0]}, document {i}")
            bar.update()
    for split, part in parts.items():
        for i, query in enumerate(part.queries_iter(), 1):
            text, where = query.default_text(), f"{split}, query {i}"
            gatherer.listed_query(split, text, where, query.query_id)
    for split, part in parts.items():
        numbered = enumerate(part.qrels_iter(), 1)
        judged = ((i, j.query_id, j.doc_id, j.relevance) for i, j in numbered)
        gatherer.judge_lines(split, f"the qrels of {split}", judged)
    return gatherer.dataset(ids[0])


def _load(id: str) -> Any:  # noqa: ANN401 - no types there
    try:
        import ir_datasets
    except ImportError:
        rule = "ids of ir_datasets need that package: pip install unstale[ir-datasets]"
        raise InputError(f"cannot read {id!r}: {rule}") from None
    try:
        found = ir_datasets.load(id)
    except KeyError:
        raise InputError(f"ir_datasets has no dataset {id!r}") from None
    for part in ("docs", "queries", "qrels"):
        if not getattr(found, f"has_{part}")():
            raise InputError(f"the dataset {id!r} of ir_datasets has no {part}")
    return found


def _target(doc: Any) -> Target:  # noqa: ANN401
    """Keep title and text apart where a document has both; otherwise take its default text."""
    title, text = getattr(doc, "title", None), getattr(doc, "text", None)
    if title and text is not None:
        return Target(doc.doc_id, title, text)
    return Target(doc.doc_id, "", doc.default_text())


FORMAT = Format(
    "ir_datasets",
    "ids of the package ir_datasets, ir_datasets:ID",
    fits=lambda source: False,  # only by name: an id looks like a path
    read=_read,
    write=None,
)
