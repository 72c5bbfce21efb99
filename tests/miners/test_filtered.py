"""The filters mean what sentence-transformers means, and hold for every strategy."""

from itertools import product

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import mine_hard_negatives
from tests.materials import encoded_rows, small_miner, small_negatives

from unstale.buffer.buffer import TargetBuffer
from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_queries, embed_targets
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.miners import FalseNegatives, Filters, Queries, Stale, strategies
from unstale.miners.filters import too_high, too_low

N, D, B, K = 60, 8, 5, 6
SEEING = sorted(name for name, strategy in strategies().items() if strategy.views_all)


def batch() -> Queries:
    torch.manual_seed(1)
    positives = torch.tensor([[0, 1], [2, -1], [3, -1], [0, -1], [59, 5]])
    return Queries(torch.randn(B, D), torch.arange(10, 10 + B), positives, 4)


def seen(miner, queries: Queries) -> torch.Tensor:
    """Score every target as the miner sees it."""
    view = miner.view(torch.arange(N))
    vectors = view.stale if view.corrected is None else view.corrected
    return queries.vectors @ vectors.T


def test_strategies_that_see_nothing_refuse_filters() -> None:
    assert set(strategies()) - set(SEEING) == {"in-batch", "uniform", "stochastic"}
    for name in set(strategies()) - set(SEEING):
        with pytest.raises(InputError, match=f"{name} cannot filter false negatives"):
            small_negatives(name, K, filters=Filters(max_score=1.0))


@pytest.mark.parametrize("sampling", ["top-k", "gumbel"])
@pytest.mark.parametrize("name", SEEING)
def test_what_is_mined_passes_every_filter(name: str, sampling: str) -> None:
    filters = Filters(max_score=2.5, min_score=-1.0, absolute_margin=-4.0, range_min=1)
    negatives = small_negatives(name, K, 2, filters=filters, sampling=sampling, sample_size=0)
    miner = negatives.miner
    with torch.no_grad():  # a corrector that is no identity any more: it is its scores that count
        for weights in miner.parameters():
            weights.add_(0.3 * torch.randn_like(weights))
    queries = batch()
    hard, uniform, _, dropped = negatives.mine(queries)
    assert (hard.shape, uniform.shape) == ((B, K), (B, 2))
    scores = seen(miner, queries)
    assert not (hard[:, :, None] == queries.positives[:, None]).any(dim=2)[hard >= 0].any()
    found = scores.gather(1, hard.clamp(min=0))[hard >= 0]
    assert found.max() <= 2.5
    assert found.min() >= -1.0
    lowest = scores.gather(1, queries.positives.clamp(min=0))
    lowest = lowest.masked_fill(queries.positives < 0, torch.inf).amin(dim=1, keepdim=True)
    assert (scores <= lowest + 4.0).gather(1, hard.clamp(min=0))[hard >= 0].all()
    assert dropped is not None
    assert set(dropped.counts) == {"absolute_margin", "max_score", "min_score", "range_min"}
    assert dropped.missing == (hard < 0).sum()
    # What scores too high is kept away, and never mined.
    away = dropped.kept_away
    assert (hard[:, :, None] != away[:, None]).logical_or(hard[:, :, None] < 0).all()
    assert sum(dropped.counts.values()) - dropped.counts["min_score"] == (away >= 0).sum()


@pytest.mark.parametrize("name", SEEING)
def test_filters_that_ask_nothing_change_nothing(name: str) -> None:
    plain = small_miner(name, sample_size=0)
    wide = small_negatives(name, K, filters=Filters(range_max=9), sample_size=0)
    assert wide.filters is not None
    assert torch.equal(plain.mine(batch(), K), wide.mine(batch()).hard)


def test_too_few_are_fewer_and_said() -> None:
    filters = FalseNegatives(Filters(max_score=0.5), reach=4)
    queries = Queries(
        torch.tensor([[1.0, 0.9, 0.2, 0.1]]), torch.tensor([0]), torch.tensor([[3]]), 0
    )
    rows, dropped = filters.mine(Stale(TargetBuffer([torch.eye(4)])), queries, 3)
    assert rows.tolist() == [[2, -1, -1]]
    kept_away, counts, considered, missing = dropped
    assert (counts, considered, missing) == ({"max_score": 2}, 3, 2)
    assert kept_away.tolist() == [[0, 1, -1]]


def test_what_stands_on_the_bar_is_kept() -> None:
    """The positive scores 1 and every bar is at 0.5."""
    scores, positive = torch.tensor([[0.75, 0.5, 0.25]]), torch.tensor([[1.0]])
    for rule in ({"absolute_margin": 0.5}, {"relative_margin": 0.5}, {"max_score": 0.5}):
        (high,) = too_high(Filters(**rule), scores, positive).values()
        assert high.tolist() == [[True, False, False]], rule
    assert too_low(Filters(min_score=0.5), scores).tolist() == [[False, False, True]]


GRID = [
    Filters(),
    Filters(range_min=2, range_max=20),
    Filters(absolute_margin=0.1, range_max=120),
    Filters(relative_margin=0.05, range_max=120),
    Filters(relative_margin=0.3, max_score=0.6, range_max=120),
    Filters(max_score=0.5, min_score=0.2, range_min=1, range_max=120),
    Filters(relative_margin=0.05, range_max=8),
    Filters(absolute_margin=0.02, range_min=3, range_max=9),
]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("filters", GRID, ids=str)
def test_it_mines_what_mine_hard_negatives_mines(
    filters: Filters, static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    pairs, k = dataset.split("train").pairs[:30], 4
    texts = (dataset.queries.take(pairs[:, 0]), dataset.targets.take(pairs[:, 1]))
    rules = {name: value for name, value in vars(filters).items() if name != "cross_encoder_margin"}
    theirs = mine_hard_negatives(
        Dataset.from_dict(dict(zip(("query", "positive"), texts, strict=True))),
        static_model,
        corpus=dataset.targets.take(range(120)),
        num_negatives=k,
        output_format="labeled-list",
        verbose=False,
        **rules,
    )
    expected = {row["query"]: row["positive"][1:] for row in theirs}

    tokens = target_tokens(static_model, dataset, progress=False)
    buffer = TargetBuffer([embed_targets(static_model, tokens, np.arange(120))])
    queries = Queries(
        embed_queries(static_model, texts[0]),
        torch.from_numpy(pairs[:, 0]),
        torch.from_numpy(pairs[:, 1:]),
        0,
    )
    mined, _ = FalseNegatives(filters, reach=120).mine(Stale(buffer), queries, k)
    ours = {
        text: dataset.targets.take([row for row in rows if row >= 0])
        for text, rows in zip(texts[0], mined.tolist(), strict=True)
    }
    assert {text: rows for text, rows in ours.items() if rows} == expected


def test_the_veto_is_asked_about_no_more_than_it_must() -> None:
    asked: list[tuple[int, int]] = []

    def cross(queries: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        pairs = list(zip(queries.tolist(), targets.tolist(), strict=True))
        asked.extend(pairs)
        return torch.tensor([{7: 0.5, 0: 0.9, 1: 0.3, 2: 0.45}.get(t, 0.0) for _, t in pairs])

    vectors = torch.linspace(1, 0, 8)[:, None]  # targets 0 to 7 by falling score; 7 is the positive
    filters = Filters(cross_encoder_margin=0.1)
    miner = Stale(TargetBuffer([vectors]))
    queries = Queries(torch.ones(1, 1), torch.tensor([4]), torch.tensor([[7]]), 0)
    # 0 is better than the positive, 2 less than 0.1 below it; 1, 3 are chosen.
    rows, dropped = FalseNegatives(filters, 8, cross).mine(miner, queries, 2)
    assert rows.tolist() == [[1, 3]]
    assert asked == [(4, 7), (4, 0), (4, 1), (4, 2), (4, 3)]
    assert dropped.counts == {"cross_encoder": 2}


@pytest.mark.parametrize(
    ("filters", "rule"),
    [
        (Filters(range_min=-1), "--range-min must be at least 0, got -1"),
        (Filters(range_min=8, range_max=10), "cannot mine 4 targets between --range-min 8"),
        (Filters(min_score=0.7, max_score=0.3), "--min-score 0.7 is above --max-score 0.3"),
    ],
)
def test_ranges_that_leave_nothing_are_refused(filters: Filters, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        filters.check(4)


def test_a_filtered_query_mines_the_same_alone_or_in_company() -> None:
    filters = Filters(relative_margin=0.2, range_max=30)
    for name, cross in product(SEEING, (None, lambda queries, targets: (queries + targets) % 3.0)):
        negatives = small_negatives(name, K, filters=filters, cross_encoder=cross, sample_size=0)
        queries = batch()
        alone = Queries(*(t[2:3] for t in queries[:3]), step=queries.step)
        found = encoded_rows(negatives, queries)[2:3]
        assert torch.equal(encoded_rows(negatives, alone), found), name
