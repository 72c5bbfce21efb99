"""A miner that was moved, as `loss.to(device)` moves it, does what one that stayed does.

`.to(device)` replaces the tensors of a module. Whoever remembers one from before then reads or
writes a tensor that nobody else sees: such a tensor is spoilt here, so that it shows.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.materials import small_materials
from torch import Tensor, nn

from unstale.miners import Freshness, Miner, Queries, find_strategy, strategies
from unstale.search.auto import Choice
from unstale.training.identity import FORMAT
from unstale.training.record import RunRecord
from unstale.training.state import load_miner, save_miner

N, D, B, K, STEPS = 120, 8, 5, 6, 12
CASES = [(name, "exact") for name in sorted(strategies())]
CASES += [
    pytest.param(name, mode, marks=pytest.mark.slow)
    for name, strategy in sorted(strategies().items())
    for mode in ("rolling", "ivf")
    if "search" in strategy.reads
]


def move(module: nn.Module) -> None:
    """Replace every tensor of a module, and spoil the one that it had."""

    def moved(tensor: Tensor) -> Tensor:
        new = tensor.clone()
        tensor.fill_(torch.nan if tensor.is_floating_point() else 0)
        return new

    module._apply(moved)


def build(name: str, mode: str, sampling: str = "top-k") -> Miner:
    sizes = {"targets": N, "dim": D, "steps": STEPS, "subset_size": 80, "sample_size": 60}
    choice = Choice(mode, "float32", "a test")  # type: ignore[arg-type]
    return find_strategy(name).build(small_materials(**sizes, search=choice, sampling=sampling))


def batch(step: int) -> Queries:
    random = torch.Generator().manual_seed(step)
    positives = torch.tensor([[0, 1], [2, -1], [3, -1], [0, -1], [59, 5]])
    return Queries(torch.randn(B, D, generator=random), torch.arange(B), positives, step, 5.0)


def embed(rows: Tensor) -> Tensor:
    """Stand for an encoder that moves every target its own way."""
    return torch.sin(rows[:, None] * torch.arange(1.0, D + 1) / 7)


def steps(miner: Miner, first: int, last: int) -> Iterator[list[Tensor | None]]:
    """Do what a run does at its steps, and yield all that can be seen of the miner."""
    own = list(miner.parameters())
    optimizer = torch.optim.SGD(own, 0.1) if own else None
    for step in range(first, last):
        queries = batch(step)
        mined = miner.mine(queries, K)
        rows = mined.unique() if mined.numel() else torch.arange(4)
        loss = miner.loss(queries, embed(rows), rows, None)
        if optimizer is not None and loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        miner.refresh(step + 1, embed)
        # Low: a miner that refreshes when it is found stale does so after the next step.
        miner.observe(Freshness(step + 1, 0.9, 0.95, 0.2, 0.1, 0.1 * (step % 10), 0.95))
        with torch.no_grad():
            view = miner.view(torch.arange(N))
            ranked = miner.ranked(queries.vectors, K)
        lists = [] if ranked is None else [*ranked.stale, *ranked.searched]
        yield [mined, loss.detach(), *(view or [])[:2], *lists]


def assert_same(ours: list[Tensor | None], theirs: list[Tensor | None], when: str) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None), when
        if one is not None and other is not None:
            assert torch.equal(one, other), when


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_a_moved_miner_mines_learns_refreshes_and_resumes_as_one_that_stayed(
    name: str, mode: str, tmp_path: Path
) -> None:
    stayed, moved = build(name, mode), build(name, mode)
    move(moved)
    middle = STEPS // 2
    for step, (ours, theirs) in enumerate(
        zip(steps(moved, 0, middle), steps(stayed, 0, middle), strict=True)
    ):
        assert_same(ours, theirs, f"step {step}")
    move(moved)
    same = {"format": FORMAT}  # of the run that both are
    save_miner(tmp_path, moved, RunRecord(identity=same))
    resumed = build(name, mode)
    move(resumed)
    load_miner(tmp_path, resumed, RunRecord(identity=same))
    move(resumed)
    for step, (ours, back, theirs) in enumerate(
        zip(*(steps(m, middle, STEPS) for m in (moved, resumed, stayed)), strict=True), middle
    ):
        assert_same(ours, theirs, f"moved again, step {step}")
        assert_same(back, theirs, f"resumed, step {step}")
