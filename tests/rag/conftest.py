"""A small T5 with dropout silenced, questions over the world of tests/conftest.py."""

from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import RetrievalDataset
from unstale.encoders.load import load_encoder
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader
from unstale.rag.tiny_reader import tiny_reader


@pytest.fixture(scope="session")
def questions(dataset: RetrievalDataset) -> QuestionSet:
    return QuestionSet.of(dataset)


@pytest.fixture
def reader(questions: QuestionSet) -> Reader:
    return tiny_reader(questions.texts(), width=16, layers=2, max_length=40, answer_length=6)


@pytest.fixture
def retriever(bert_folder: Path) -> SentenceTransformer:
    return load_encoder(str(bert_folder), towers="separate", layers=1, device="cpu")


@pytest.fixture
def start(bert_folder: Path, questions: QuestionSet):
    def load() -> tuple[SentenceTransformer, Reader]:
        retriever = load_encoder(str(bert_folder), towers="separate", layers=1, device="cpu")
        texts = questions.texts()
        return retriever, tiny_reader(texts, width=16, layers=1, max_length=40, answer_length=6)

    return load
