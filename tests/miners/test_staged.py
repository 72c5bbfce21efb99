"""Two stages: nothing is mined until the corpus is embedded, and then what `corrected` would."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.materials import small_materials
from torch import Tensor
from transformers import get_linear_schedule_with_warmup

from unstale.buffer.buffer import TargetBuffer
from unstale.miners import Embedded, NegativeCounts, Negatives, Queries, find_strategy
from unstale.miners.in_batch import InBatch
from unstale.miners.staged import Staged
from unstale.training.candidates import choose_candidates
from unstale.training.identity import FORMAT
from unstale.training.rate import linear
from unstale.training.record import Counters, RunRecord
from unstale.training.state import load_miner, save_miner

N, D, B, K = 60, 8, 5, 4


def batch() -> Queries:
    torch.manual_seed(1)
    positives = torch.tensor([[0], [2], [3], [0], [59]])
    return Queries(torch.randn(B, D), torch.arange(B), positives, 4)


def fresh(rows: Tensor) -> Tensor:
    """Stand for the encoder at the step between the stages."""
    return torch.sin(rows[:, None] * torch.arange(1.0, D + 1) / 7)


def build(dtype: str = "float32", held: int = N) -> Staged:
    empty = TargetBuffer.empty(held, D, dtype, "cpu")
    made = find_strategy("staged").build(small_materials(N, D, buffer=empty))
    assert isinstance(made, Staged)
    return made


@pytest.mark.parametrize(("share", "steps", "start"), [(0.6, 10, 6), (0.0, 10, 1)])
def test_the_corpus_is_embedded_once_after_a_share_of_the_run(
    share: float, steps: int, start: int
) -> None:
    miner = build()
    miner.share = share
    miner.begin(steps)
    found = [miner.refresh(step, fresh) for step in range(1, steps + 2)]
    assert found[start - 1] == Embedded(first=N)
    assert sum(e.first + e.refreshed + e.sampled for e in found) == N


def test_the_first_stage_is_in_batch_training() -> None:
    miner, queries = build(), batch()
    miner.begin(10)
    assert miner.mine(queries, K).shape == (B, 0)
    assert miner.view(torch.arange(3)) is None
    assert miner.ranked(queries.vectors, K) is None
    assert miner.searches() == []
    assert miner.row_tensors() == {}
    assert miner.loss(queries, torch.randn(3, D), torch.arange(3), None) == 0


def test_the_second_stage_searches_what_was_embedded_midway() -> None:
    miner, queries = build(), batch()
    miner.begin(10)
    miner.refresh(8, fresh)
    vectors = fresh(torch.arange(N))
    scores = (queries.vectors @ vectors.T).scatter(1, queries.positives, -torch.inf)
    assert torch.equal(miner.mine(queries, K), scores.topk(K).indices)
    assert miner.loss(queries, torch.randn(3, D), torch.arange(3), None).requires_grad
    view = miner.view(torch.arange(N))
    assert view is not None
    assert torch.equal(view.stale, vectors)


def test_a_part_of_the_corpus_is_embedded_mined_from_and_learned_from() -> None:
    miner, queries, asked = build(held=20), batch(), []
    miner.begin(10)
    part = miner.covers()
    assert part is not None
    assert len(part.unique()) == 20
    queries = queries._replace(positives=part[:B, None])  # in the part, so never to be mined

    def embed(rows: Tensor) -> Tensor:
        asked.extend(rows.tolist())
        return fresh(rows)

    assert miner.refresh(8, embed) == Embedded(first=20)
    assert asked == part.tolist()
    scores = torch.full((B, N), -torch.inf)
    scores[:, part] = queries.vectors @ fresh(part).T
    scores = scores.scatter(1, queries.positives, -torch.inf)
    assert torch.equal(miner.mine(queries, K), scores.topk(K).indices)
    ranked = miner.ranked(queries.vectors, K, queries.positives)
    assert ranked is not None
    assert torch.equal(ranked.stale.rows, scores.topk(K).indices)
    view = miner.view(part[3:5])
    assert view is not None
    assert torch.equal(view.stale, fresh(part[3:5]))
    # Its corrector learns from the candidates that it holds, as if there were no others.
    outside = torch.tensor([row for row in range(N) if row not in part.tolist()][:3])
    vectors, here = torch.randn(5, D), slice(1, 3)
    rows = torch.cat([outside[:1], part[6:8], outside[1:]])
    every = torch.ones(B, 5, dtype=torch.bool)
    assert torch.equal(
        miner.loss(queries, vectors, rows, every),
        build_like(miner).loss(queries, vectors[here], rows[here], every[:, here]),
    )
    assert miner.loss(queries, vectors[:3], outside, None) == 0


def build_like(miner: Staged) -> Staged:
    """Build another with the same part, buffer and weights, whose memory is its own."""
    again = build(held=20)
    again.begin(10)
    again.refresh(8, fresh)
    again.load_state_dict(miner.state_dict())
    return again


@pytest.mark.parametrize("held", [N, 20])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("mining", [False, True])
def test_a_checkpoint_of_either_stage_resumes(
    mining: bool, dtype: str, held: int, tmp_path: Path
) -> None:
    miner, again, same = build(dtype, held), build(dtype, held), {"format": FORMAT}
    miner.begin(10)
    again.begin(10)
    if mining:
        miner.refresh(8, fresh)
        miner.loss(batch(), torch.randn(3, D), torch.arange(3), None)  # writes to the memory
    save_miner(tmp_path, miner, RunRecord(identity=same))
    load_miner(tmp_path, again, RunRecord(identity=same))
    assert bool(again.mining) == mining
    assert torch.equal(again.mine(batch(), K), miner.mine(batch(), K))
    # The first stage holds nothing that has a row for each target.
    assert ("vectors" in load_file(tmp_path / "miner.safetensors")) == mining


def test_the_learning_rate_falls_with_the_work() -> None:
    """Of 10 steps the last 5 count as one and a half each: 5 + 7.5 in all."""
    miner = build()
    found = [linear(step, miner=miner, steps=10, warmup=0) for step in range(11)]
    expected = [1 - done / 12.5 for done in (0, 1, 2, 3, 4, 5, 6.5, 8, 9.5, 11, 12.5)]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("warmup", [1, 30, 150, 240, 299])
def test_a_warm_up_ends_at_the_rate_that_was_asked_for(warmup: int) -> None:
    miner = build()
    found = [linear(step, miner=miner, steps=300, warmup=warmup) for step in range(301)]
    assert max(found) == found[warmup] == 1.0
    assert found[300] == 0.0


def test_where_all_steps_are_alike_it_is_the_trainers_own_schedule() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    stock = get_linear_schedule_with_warmup(optimizer, 3, 10).lr_lambdas[0]
    for step in range(11):
        assert linear(step, miner=InBatch(), steps=10, warmup=3) == stock(step)


def test_every_fourth_query_is_mined_for_and_all_use_what_is_found() -> None:
    miner, queries = build(), batch()
    miner.begin(10)
    miner.refresh(8, fresh)
    made = find_strategy("staged")
    mined = Negatives(miner, NegativeCounts(K, 0), mined_for=made.mined_for).mine(queries)
    # A quarter of 5 queries is 2, rounded up; the others have none of their own.
    assert torch.equal(mined.hard[:2], miner.mine(queries, K)[:2])
    assert (mined.hard[2:] == -1).all()
    label = queries.positives[:, 0]
    found = choose_candidates(
        Negatives(miner, NegativeCounts(K, 0), mined_for=made.mined_for),
        queries, label, Counters(), shared=True,
    )  # fmt: skip
    assert set(found.rows.tolist()) == {*label.tolist(), *mined.hard[:2].flatten().tolist()}
    assert torch.equal(found.rows[found.label], label)
    assert found.rows[found.labels].tolist() == sorted(set(label.tolist()))
    # Nothing but its own positive is absent from a query's softmax.
    assert (found.absent.sum(dim=1) == 0).all()
