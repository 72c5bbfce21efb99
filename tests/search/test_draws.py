import pytest
import torch

from unstale.buffer.buffer import TargetBuffer
from unstale.search import draws
from unstale.search.added import Added
from unstale.search.draws import GUMBEL, SUBSET, UNIFORM, bits, subset
from unstale.search.exact import Exact


def test_a_draw_is_a_function_of_its_key_alone() -> None:
    queries, rows = torch.arange(5), torch.arange(100)
    whole = bits(GUMBEL, 1, 2, queries, rows)
    assert torch.equal(bits(GUMBEL, 1, 2, queries[3:4], rows[50:]), whole[3:4, 50:])
    keys = [(GUMBEL, 2, 2), (GUMBEL, 1, 3), (UNIFORM, 1, 2), (SUBSET, 1, 2)]
    for other in (bits(*key, queries, rows) for key in keys):
        assert (other == whole).float().mean() < 0.01
    assert len(whole.unique()) == whole.numel()
    assert (whole >= 0).all()


def test_bits_look_uniform() -> None:
    draws = bits(UNIFORM, 0, 0, torch.arange(200), torch.arange(500)).double() / 2.0**63
    counts = torch.histc(draws.float(), bins=10, min=0, max=1)
    # 100,000 draws in 10 bins: 10,000 each, standard deviation sqrt(1e5 * .1 * .9) = 95.
    assert (counts - 10_000).abs().max() < 5 * 95


def test_first_draw_frequencies_match_the_softmax() -> None:
    torch.manual_seed(0)
    stale, query, scale, draws = torch.randn(6, 4), torch.randn(1, 4), 1.5, 20_000
    p = torch.softmax(scale * query @ stale.T, dim=1)[0]
    search = Exact(TargetBuffer([stale]))
    queries = query.expand(draws, 4).contiguous()
    added = Added(7, queries, torch.arange(draws), gumbel_seed=0, scale=scale)
    first = search.top_k(queries, 2, added=added).rows
    frequency = torch.bincount(first[:, 0], minlength=6) / draws
    spread = (p * (1 - p) / draws).sqrt()  # standard deviation of a frequency
    assert ((frequency - p).abs() < 5 * spread).all()
    # The second draw is from what is left: P(second = j) = sum_i p_i p_j / (1 - p_i).
    others = p[None, :] * p[:, None] / (1 - p[:, None])  # (i, j)
    second = others.sum(dim=0) - others.diagonal()
    found = torch.bincount(first[:, 1], minlength=6) / draws
    assert ((found - second).abs() < 5 * (second * (1 - second) / draws).sqrt()).all()


def test_a_subset_has_the_rows_with_the_smallest_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared a piece at a time, as those of a large corpus are."""
    monkeypatch.setattr(draws, "_AT_ONCE", 64)
    numbers = bits(SUBSET, 3, 5, torch.zeros(1, dtype=torch.long), torch.arange(1000))[0]
    assert subset(1000, 100, seed=3, step=5).tolist() == sorted(numbers.argsort()[:100].tolist())
    assert subset(1000, 1000, seed=3, step=5).tolist() == list(range(1000))
