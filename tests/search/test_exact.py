"""Chunked equals whole, corrected equals literal, and excluded rows never come back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.errors import InputError
from unstale.search.added import Added
from unstale.search.draws import gumbel
from unstale.search.exact import Exact


def random_case(seed: int, n: int, b: int) -> tuple[torch.Tensor, torch.Tensor, Corrector]:
    torch.manual_seed(seed)
    network = Corrector(8, (16,))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.5)
    return torch.randn(b, 8), torch.randn(n, 8), network


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 70),
    b=st.integers(1, 12),
    chunk=st.integers(1, 80),
    shards=st.integers(1, 3),
    corrected=st.booleans(),
    data=st.data(),
)
def test_chunked_equals_the_literal_recipe(
    seed: int, n: int, b: int, chunk: int, shards: int, corrected: bool, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, n))
    queries, stale, network = random_case(seed, n, b)
    buffer = TargetBuffer(list(stale.tensor_split(min(shards, n))))
    found = Exact(buffer, network if corrected else None, chunk).top_k(queries, k)
    literal = queries @ (network(stale) if corrected else stale).T
    whole = literal.topk(k, dim=1)
    torch.testing.assert_close(found.scores, whole.values, atol=1e-5, rtol=1e-5)
    # Order may differ only where scores are within that.
    torch.testing.assert_close(literal.gather(1, found.rows), whole.values, atol=1e-5, rtol=1e-5)
    assert all(len(set(r)) == k for r in found.rows.tolist())


def test_identity_at_the_start_mines_exactly_like_stale() -> None:
    queries, stale, _ = random_case(0, 500, 6)
    plain = Exact(TargetBuffer([stale])).top_k(queries, 20)
    through = Exact(TargetBuffer([stale]), Corrector(8, (16,))).top_k(queries, 20)
    assert torch.equal(plain.rows, through.rows)


def test_a_perfect_corrector_mines_exactly_like_fresh() -> None:
    # The drift is an MLP that the corrector can be: b + W2 relu(W1 b + c1) + c2.
    queries, stale, drift = random_case(1, 500, 6)
    fresh = drift(stale).detach()
    perfect = Exact(TargetBuffer([stale]), drift).top_k(queries, 20)
    assert torch.equal(perfect.rows, Exact(TargetBuffer([fresh])).top_k(queries, 20).rows)
    stale_rows = Exact(TargetBuffer([stale])).top_k(queries, 20).rows
    assert not torch.equal(perfect.rows, stale_rows)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 10), width=st.integers(1, 5))
def test_excluded_rows_are_replaced_by_the_next_best(seed: int, k: int, width: int) -> None:
    queries, stale, _ = random_case(seed, 40, 3)
    exclude = torch.randint(-1, 40, (3, width))
    found = Exact(TargetBuffer([stale]), chunk=7).top_k(queries, k, exclude)
    scores = queries @ stale.T
    for i, banned in enumerate(exclude.tolist()):
        order = [r for r in scores[i].argsort(descending=True).tolist() if r not in banned]
        assert found.rows[i].tolist() == order[:k]


def test_more_than_there_are_is_an_error() -> None:
    queries, stale, _ = random_case(0, 12, 2)
    with pytest.raises(InputError, match="cannot take the top 64 of a buffer of 12 targets"):
        Exact(TargetBuffer([stale])).top_k(queries, 64)
    with pytest.raises(InputError, match="too few are not its positives"):
        Exact(TargetBuffer([stale])).top_k(queries, 12, torch.tensor([[3], [-1]]))


@pytest.mark.parametrize("chunk", [3, 100])
def test_gumbel_noise_does_not_depend_on_the_chunks(chunk: int) -> None:
    queries, stale, network = random_case(0, 50, 4)
    rows = torch.tensor([9, 8, 7, 6])
    added = Added(3, queries, rows, gumbel_seed=5, scale=2.0)
    found = Exact(TargetBuffer([stale]), network, chunk).top_k(queries, 5, added=added)
    drawn = gumbel(5, 2.0, 3, rows, torch.arange(50))
    expected = (queries @ network(stale).T + drawn).topk(5, dim=1)
    torch.testing.assert_close(found.scores, expected.values, atol=1e-5, rtol=1e-5)
    assert torch.equal(found.rows, expected.indices)
