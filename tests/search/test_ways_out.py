"""The appendix's two answers to a buffer that does not fit, against the literal recipe."""

from pathlib import Path
from typing import Any

import pytest
import torch

from unstale.buffer.buffer import TargetBuffer
from unstale.cli.main import main
from unstale.corrector.network import Corrector
from unstale.miners.corrected import Corrected
from unstale.miners.miner import Miner
from unstale.miners.negatives import Negatives, build_negatives
from unstale.search.added import Added
from unstale.search.draws import subset
from unstale.search.exact import Exact
from unstale.search.low_memory import RotatingSubset, StaleRerank


def case() -> tuple[torch.Tensor, torch.Tensor, Corrector, torch.Tensor]:
    torch.manual_seed(0)
    network = Corrector(8, (16,))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
    return torch.randn(5, 8), torch.randn(200, 8), network, torch.tensor([[3], [4], [-1], [9], [7]])


def test_a_subset_is_searched_exactly_and_rotates() -> None:
    queries, stale, network, exclude = case()
    search = RotatingSubset(TargetBuffer([stale]), network, size=50, every=10, seed=1)
    for step in (0, 9, 10, 25, 3):  # back again: a function of the step alone
        search.begin(step)
        rows = subset(200, 50, seed=1, step=step // 10)
        scores = queries @ network(stale).T
        outside = torch.ones(200, dtype=torch.bool)
        outside[rows] = False
        scores[:, outside] = -torch.inf
        scores.scatter_(
            1,
            exclude.clamp(min=0),
            torch.where(exclude >= 0, -torch.inf, scores.gather(1, exclude.clamp(min=0))),
        )
        assert torch.equal(search.top_k(queries, 6, exclude).rows, scores.topk(6).indices)


def test_a_whole_subset_is_the_whole_corpus() -> None:
    queries, stale, network, exclude = case()
    noise = Added(4, queries, torch.arange(5), gumbel_seed=0, scale=20.0)
    whole = RotatingSubset(TargetBuffer([stale]), network, size=200, every=1, seed=1)
    exact = Exact(TargetBuffer([stale]), network)
    assert torch.equal(
        whole.top_k(queries, 6, exclude, noise).rows, exact.top_k(queries, 6, exclude, noise).rows
    )


def test_rerank_takes_the_best_corrected_of_the_stale_best() -> None:
    queries, stale, network, exclude = case()
    found = StaleRerank(TargetBuffer([stale]), network, depth=30).top_k(queries, 6, exclude)
    for i in range(5):
        near = (stale @ queries[i]).argsort(descending=True).tolist()
        near = [r for r in near if r != exclude[i].item()][:30]
        corrected = (network(stale) @ queries[i]).tolist()
        expected = sorted(near, key=lambda r: -corrected[r])[:6]
        assert found.rows[i].tolist() == expected


def test_rerank_of_everything_is_exact_noise_included() -> None:
    queries, stale, network, exclude = case()
    noise = Added(4, queries, torch.arange(5), gumbel_seed=0, scale=20.0)
    exact = Exact(TargetBuffer([stale]), network).top_k(queries, 6, exclude, noise)
    rerank = StaleRerank(TargetBuffer([stale]), network, depth=200)
    assert torch.equal(rerank.top_k(queries, 6, exclude, noise).rows, exact.rows)


def test_rerank_corrects_a_bounded_number_of_rows_at_once(monkeypatch) -> None:
    queries, stale, network, _ = case()
    monkeypatch.setattr("unstale.search.vectors._CORRECTED", 16)
    network.unit, rows = True, []  # so that all of h runs
    network.layers[0].register_forward_hook(lambda _, given, __: rows.append(len(given[0])))
    StaleRerank(TargetBuffer([stale]), network, depth=60).top_k(queries, 6)
    assert sum(rows) > 60
    assert max(rows) <= 16


@pytest.mark.parametrize("name", ["corrected-subset", "stale-rerank"])
def test_a_buffer_that_does_not_fit_stays_on_disk(
    name: str, beir: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Miner] = []

    def watched(*given: Any, **more: Any) -> Negatives:
        negatives = build_negatives(*given, **more)
        built.append(negatives.miner)
        return negatives

    monkeypatch.setattr("unstale.training.prepare.build_negatives", watched)
    flags = "--steps 1 --batch-size 4 --hard-negatives 2 --corrector-hidden 8 --device cpu"
    where = ["--data", str(beir), "--model", str(bert_folder), "--output", str(tmp_path / "run")]
    for strategy in (name, "corrected"):
        assert main(["train", *where, "--overwrite", "--strategy", strategy, *flags.split()]) == 0
    mapped = [
        _is_mapped(next(m.buffer for m in b.modules() if isinstance(m, Corrected)).shards[0].data)
        for b in built
    ]
    assert mapped == [True, False]


def _is_mapped(vectors: torch.Tensor) -> bool:
    """Tell whether a tensor's memory is that of a file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, _, last = line.split()[0].partition("-")
        if int(first, 16) <= vectors.data_ptr() < int(last, 16):
            return line.endswith(".safetensors") or "deleted" in line
    raise AssertionError("no such memory")
