"""A small T5 with dropout silenced, questions over the world of tests/conftest.py."""

import pytest

from unstale.data.dataset import RetrievalDataset
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader
from unstale.rag.tiny_reader import tiny_reader


@pytest.fixture(scope="session")
def questions(dataset: RetrievalDataset) -> QuestionSet:
    return QuestionSet.of(dataset)


@pytest.fixture
def reader(questions: QuestionSet) -> Reader:
    return tiny_reader(questions.texts(), width=16, layers=2, max_length=40, answer_length=6)
