"""One ranking of the corpus measures a split and a sample of training queries."""

from dataclasses import replace

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.encoders.tokenise import target_tokens
from unstale.evaluation import retrieve
from unstale.evaluation.evaluator import SAMPLED, Evaluator, sample_queries
from unstale.evaluation.metrics import means

TEXTS = ["red castle", "blue river", "green planet", "loud violin"]


def qrels(*pairs: tuple[int, int]) -> Qrels:
    query, target = np.array(pairs).T
    return Qrels(query, target, np.ones(len(pairs), np.int64))


@pytest.fixture
def asked() -> RetrievalDataset:
    """Four queries that are the targets' texts; the label of training query 1 is another text."""
    return RetrievalDataset(
        name="mirror",
        target_ids=Texts.of([f"t{i}" for i in range(4)]),
        targets=Texts.of(TEXTS),
        query_ids=Texts.of([f"q{i}" for i in range(4)]),
        queries=Texts.of(TEXTS),
        qrels={"train": qrels((0, 0), (1, 0)), "test": qrels((2, 2), (3, 3))},
    )


def evaluator(
    dataset: RetrievalDataset, model: SentenceTransformer, split: str = "test"
) -> Evaluator:
    tokens = target_tokens(model, dataset, progress=False)
    rows = sample_queries(dataset, 0)
    return Evaluator(dataset, split, tokens, train_rows=rows, progress=False)


def test_both_recalls_by_hand(asked: RetrievalDataset, static_model: SentenceTransformer) -> None:
    evaluate = evaluator(asked, static_model)
    found = evaluate(static_model)
    assert found["recall@1"] == 1.0  # of queries 2 and 3
    assert evaluate.train["recall@1"] == 0.5  # query 0 finds its label, query 1 itself
    assert evaluate.train["recall@5"] == 1.0
    assert evaluate.train.keys() == found.keys()
    assert evaluate.values["test"]["recall@1"].tolist() == [1.0, 1.0]  # the split alone is written


def test_the_corpus_is_embedded_once_for_both(
    asked: RetrievalDataset, static_model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[int] = []
    plain = retrieve.embed_targets

    def count(model, tokens, rows, **options):
        embedded.extend(rows.tolist())
        return plain(model, tokens, rows, **options)

    monkeypatch.setattr(retrieve, "embed_targets", count)
    evaluator(asked, static_model)(static_model)
    assert embedded == [0, 1, 2, 3]


def test_a_split_may_be_that_of_training(
    asked: RetrievalDataset, static_model: SentenceTransformer
) -> None:
    """With ids shared by queries and targets: a query that is asked for twice is found once."""
    shared = replace(asked, query_ids=asked.target_ids, qrels={"train": qrels((0, 1), (1, 0))})
    evaluate = evaluator(shared, static_model, "train")
    assert evaluate(static_model) == evaluate.train
    for query, rows in enumerate(evaluate.evaluated.found.rows.tolist()):
        assert query not in rows


def test_the_split_is_measured_as_it_is_alone(
    dataset: RetrievalDataset, static_model: SentenceTransformer
) -> None:
    both = evaluator(dataset, static_model)
    alone = Evaluator(dataset, "test", target_tokens(static_model, dataset), progress=False)
    assert both(static_model) == alone(static_model)
    assert alone.train == {}
    on_train = Evaluator(dataset, "train", target_tokens(static_model, dataset), progress=False)
    assert both.train == on_train(static_model)
    assert both.train != means(both.values["test"])


def test_the_sample_is_drawn_by_the_seed_from_training_queries(asked: RetrievalDataset) -> None:
    assert sample_queries(asked, 5).tolist() == [0, 1]  # all, of few
    many = replace(asked, qrels={"train": qrels(*((2 * q, 0) for q in range(3000)))})
    drawn = sample_queries(many, 5)
    assert len(set(drawn.tolist())) == SAMPLED
    assert set(drawn.tolist()) <= set(range(0, 6000, 2))
    assert drawn.tolist() == sorted(drawn.tolist()) == sample_queries(many, 5).tolist()
    assert drawn.tolist() != sample_queries(many, 6).tolist()
    assert 2500 < drawn.mean() < 3500  # not the first ones
