"""The estimate of the overlap over a whole corpus, of which the meter encodes a little."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from unstale.training.estimate import choose_likely, estimate_overlaps
from unstale.training.probe import DEPTH, SAMPLE, Chosen, Pool, choose

K = 10


def true_overlap(queries: Tensor, fresh: Tensor, cached: Tensor) -> float:
    best, found = ((queries @ t.T).topk(K).indices for t in (fresh, cached))
    return (best[:, :, None] == found[:, None, :]).any(2).float().mean().item()


def estimates(
    queries: Tensor,
    fresh: Tensor,
    cached: list[Tensor],
    most: int,
    seed: int = 0,
    depth: int = DEPTH,
) -> tuple[list[float], Chosen, Pool]:
    """Do as the meter does, with lists from a full scan."""
    size = len(fresh)
    lists = [(queries @ view.T).topk(min(DEPTH, size)).indices for view in cached]
    sample = torch.randperm(size, generator=torch.Generator().manual_seed(seed))[:SAMPLE]
    pool = Pool.of(lists, sample, size)
    views = [queries @ view[pool.rows].T for view in cached]
    chosen = choose(views, pool.weight, K, most, seed)
    known = queries @ fresh[pool.rows[chosen.places]].T
    likely = choose_likely(views, pool.weight, chosen, known, K, max(0, most - len(known.T)))
    chosen = chosen.widened(likely)
    known = queries @ fresh[pool.rows[chosen.places]].T
    return estimate_overlaps(views, pool.weight, chosen, known, K), chosen, pool


def world(targets: int, seed: int, noise: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Make queries near some targets, a drift that turns and blurs, and what undoes half of it."""
    torch.manual_seed(seed)
    centres = torch.randn(200, 32)
    stale = functional.normalize(
        centres[torch.randint(200, (targets,))] + torch.randn(targets, 32), dim=1
    )
    turn = stale + 0.3 * stale @ torch.randn(32, 32) / 32**0.5
    fresh = functional.normalize(turn + noise * torch.randn(targets, 32), dim=1)
    queries = fresh[torch.randperm(targets)[:64]] + 0.1 * torch.randn(64, 32)
    return functional.normalize(queries, dim=1), fresh, stale, functional.normalize(turn, dim=1)


def test_equals_the_truth_when_everything_is_encoded() -> None:
    queries, fresh, stale, corrected = world(300, 0, 0.1)
    found, chosen, pool = estimates(queries, fresh, [stale, corrected], most=300)
    assert chosen.queries == 64
    assert len(chosen.places) == len(pool.rows) == 300
    assert (pool.weight == 1).all() or (pool.weight.sum(1) == 300).all()
    assert found == pytest.approx([true_overlap(queries, fresh, v) for v in (stale, corrected)])
    assert 0.1 < found[0] < found[1] < 0.95


@pytest.mark.parametrize(
    ("noise", "targets", "most"), [(0.03, 1536, 0.01), (0.05, 1536, 0.03), (0.08, 3 * 1536, 0.03)]
)
def test_the_error_over_20_000_targets_is_small(noise: float, targets: int, most: float) -> None:
    errors, pooled = [], []
    for seed in range(3):
        queries, fresh, stale, corrected = world(20_000, seed, noise)
        truth = [true_overlap(queries, fresh, v) for v in (stale, corrected)]
        found, chosen, pool = estimates(queries, fresh, [stale, corrected], targets, seed)
        assert len(chosen.places) <= targets
        errors.append([f - t for f, t in zip(found, truth, strict=True)])
        # What the encoded targets alone would say: that no other is in the true top k.
        encoded = pool.rows[chosen.places]
        known = torch.full((64, 20_000), -torch.inf)
        known[:, encoded] = queries @ fresh[encoded].T
        best, mine = known.topk(K).indices, (queries @ corrected.T).topk(K).indices
        share = (best[:, :, None] == mine[:, None, :]).any(2).float().mean().item()
        pooled.append(share - truth[1])
    assert torch.tensor(errors).abs().max() < most
    assert noise < 0.05 or min(pooled) > 0.025  # so the estimate has something to mend


def test_a_pool_counts_every_target_once() -> None:
    lists = [torch.tensor([[3, 1], [0, 1]]), torch.tensor([[1, 7], [0, 2]])]
    pool = Pool.of(lists, torch.tensor([1, 5, 6]), 10)
    assert pool.rows.tolist() == [0, 1, 2, 3, 5, 6, 7]
    # Query 0 lists 1, 3, 7; of the other seven it knows 5 and 6. Query 1 lists 0, 1 and 2.
    assert pool.weight.tolist() == [[0, 1, 0, 1, 3.5, 3.5, 1], [1, 1, 1, 0, 3.5, 3.5, 0]]


def test_few_targets_are_spent_on_few_queries_whose_heads_are_all_encoded() -> None:
    queries, fresh, stale, corrected = world(2000, 0, 0.05)
    for most, least in ((1, 1), (80, 2), (2000, 64)):
        _, chosen, pool = estimates(queries, fresh, [stale, corrected], most)
        assert len(chosen.places) <= max(most, 2 * K)
        assert least <= chosen.queries <= max(1, most // K)
        rows = set(pool.rows[chosen.places].tolist())
        for view in (stale, corrected):
            heads = (queries[: chosen.queries] @ view.T).topk(K).indices
            assert set(heads.flatten().tolist()) <= rows


def test_a_view_that_is_not_finite_reads_as_such_and_spoils_no_other() -> None:
    queries, fresh, stale, _ = world(300, 0, 0.1)
    found, _, _ = estimates(queries, fresh, [stale, torch.full_like(stale, torch.nan)], most=300)
    assert found[0] == pytest.approx(true_overlap(queries, fresh, stale))
    assert found[1] != found[1]
