"""Recall by answer is DPR's: its tokens, texts without titles, and the first place that has one."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from unstale.data.answers import AnswerFinder
from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.evaluation.by_answer import first_answers
from unstale.evaluation.evaluator import Evaluator
from unstale.evaluation.metrics import measure
from unstale.search.best import TopK
from unstale.training.examples import found_examples


@pytest.mark.parametrize(
    ("answer", "text", "found"),
    [
        ("May 18, 2018", "on may 18, 2018.", True),
        ("May 18 2018", "on May 18, 2018.", False),  # a comma is a token
        ("Beyonce", "Beyonc\u00e9 sang", False),  # a mark belongs to its letter
        ("Beyonc\u00e9", "BEYONCE\u0301 sang", True),  # however it is encoded
        ("cat", "concatenate", False),
        ("U.S.", "the U.S. army", True),
        ("the fort", "the old fort", False),
        ("\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c2", True),  # ends in a sigma
        ("", "anything", False),
    ],
)
def test_an_answer_is_found_as_dpr_finds_it(answer: str, text: str, found: bool) -> None:
    assert AnswerFinder([answer])(text) is found
    assert AnswerFinder(["no such thing", answer])(text) is found


@pytest.fixture
def small() -> RetrievalDataset:
    texts = ["Paris a city", "Rome an old fort", "Fort seven towers", "Lake deep water"]
    return RetrievalDataset(
        "small",
        Texts.of(list("abcd")),
        Texts.of(texts),
        Texts.of(["q0", "q1"]),
        Texts.of(["an old fort in rome", "deep water"]),
        {"dev": Qrels(np.array([0, 0]), np.array([1, 2]), np.array([1, 1]))},
        answers=[["fort"], ["Lake", "seven"]],
        title_ends=np.array([5, 4, 4, 4]),
        questions={"test": np.array([0, 1])},
    )


def test_the_first_text_with_an_answer_counts_and_titles_do_not(small: RetrievalDataset) -> None:
    found = TopK(torch.zeros(2, 4), torch.tensor([[2, 0, 1, 3], [3, 0, 1, 0]]))
    assert first_answers(small, np.array([0, 1]), found).tolist() == [2.0, np.inf]


def test_of_two_relevant_targets_one_is_half_the_recall_and_a_success(
    small: RetrievalDataset,
) -> None:
    values = measure(
        small.split("dev"), np.array([0]), TopK(torch.tensor([[2.0, 1]]), torch.tensor([[1, 0]]))
    )
    assert (values["recall@1"][0], values["success@1"][0]) == (0.5, 1.0)
    assert (values["recall@100"][0], values["success@100"][0]) == (0.5, 1.0)


def test_splits_are_measured_by_gold_and_by_answer_in_one_pass(
    small: RetrievalDataset, static_model: SentenceTransformer
) -> None:
    tokens = target_tokens(static_model, small, progress=False)
    evaluate = Evaluator(small, "dev,test", tokens, progress=False)
    found = evaluate(static_model)
    assert found["success@1"] == 1.0
    assert found["answer_recall@1"] == 1.0
    assert "test:recall@1" not in found
    # Query 1 is answered by "seven" alone, in a text that is not its nearest.
    assert found["test:answer_recall@1"] == 0.5
    assert found["test:answer_recall@5"] == 1.0
    alone = Evaluator(small, "test", tokens, progress=False)(static_model)
    assert alone["answer_recall@1"] == 0.5
    with pytest.raises(InputError, match="has no split 'tset'; it has dev, test"):
        Evaluator(small, "tset", tokens)


def test_examples_of_a_split_without_qrels_rank_the_first_target_with_an_answer(
    small: RetrievalDataset, static_model: SentenceTransformer
) -> None:
    tokens = target_tokens(static_model, small, progress=False)
    evaluate = Evaluator(small, "test", tokens, progress=False)
    evaluate(static_model)
    ranks = {found.query: found.label_rank for found in found_examples(evaluate)}
    assert ranks["an old fort in rome"] == 1
    assert ranks["deep water"] > 1
