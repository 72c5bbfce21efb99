from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_queries, embed_targets, token_batches
from unstale.encoders.tokenise import target_tokens


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 200))
def test_token_batches_hold_every_place_once_within_the_budget(
    lengths: list[int], budget: int
) -> None:
    array = np.array(lengths, np.int64)
    batches = list(token_batches(array, budget))
    assert sorted(i for b in batches for i in b.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * array[batch].max() <= budget


@pytest.mark.parametrize("kind", ["static_model", "bert_model"])
def test_embedding_equals_plain_sentence_transformers(
    kind: str, request: pytest.FixtureRequest, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    model: SentenceTransformer = request.getfixturevalue(kind)
    tokens = target_tokens(model, dataset, progress=False)
    rows = np.array([5, 99, 0, 42])
    ours = embed_targets(model, tokens, rows, tokens_per_batch=25)
    theirs = torch.tensor(model.encode_document(dataset.targets.take(rows)))
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    texts = dataset.queries.take(rows)
    torch.testing.assert_close(
        embed_queries(model, texts, batch_size=3),
        torch.tensor(model.encode_query(texts)),
        atol=1e-6,
        rtol=1e-5,
    )


def test_embedding_leaves_the_mode_as_it_was(
    bert_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    bert_model.train()
    embed_targets(bert_model, target_tokens(bert_model, dataset, progress=False), np.arange(3))
    assert bert_model.training
