"""Results as the commands write them, small enough to know by heart."""

from collections.abc import Callable
from typing import Any

import pytest

Results = dict[str, Any]
HOSTILE = "<script>document.documentElement.dataset.run = 1</script>\u202e\x07'\"&"


def entry(strategy: str, seed: int, recall: float, reembedded: int) -> Results:
    names = ("recall@1", "recall@10", "recall@100", "mrr@10", "ndcg@10")
    return {
        "strategy": strategy,
        "seed": seed,
        "steps": 20,
        "split": "test",
        "initial_metrics": dict.fromkeys(names, 0.2),
        "metrics": dict.fromkeys(names, recall),
        "targets_reembedded": reembedded,
        "targets_sampled": 5 if reembedded else 0,
        "seconds": {"total": 30.0, "training": 20.0},
        "steps_per_second": 2.0,
        "freshness": [],
    }


def reading(step: int, stale: float, corrected: float | None) -> Results:
    views = {"stale": stale, "corrected": corrected}
    values = {
        f"{name}_{view}": v for name in ("overlap", "kl", "cosine") for view, v in views.items()
    }
    return {"step": step, **values}


@pytest.fixture
def results() -> Results:
    """Three strategies of two seeds: recalls .4 and .5, .5 and .6, .6 and .7."""
    runs = []
    for strategy, recall, cost in (
        ("stale", 0.4, 0),
        ("corrected", 0.5, 0),
        ("exhaustive", 0.6, 9000),
    ):
        for seed in (0, 1):
            run = entry(strategy, seed, recall + seed / 10, cost)
            corrected = 0.9 if strategy == "corrected" else None
            run["freshness"] = [reading(0, 1.0, corrected and 1.0), reading(20, 0.5, corrected)]
            run["curve"] = [
                {"step": s, "seconds": 1.5 * s, "recall@10": 0.2 + s / 100} for s in (10, 20)
            ]
            runs.append(run)
    item = {"row": 3, "text": HOSTILE, "score": 0.5}
    runs[2]["examples"] = [
        {
            "query": f"find {HOSTILE}",
            "label": {"row": 9, "text": "the label"},
            "true": [item, {"row": 4, "text": "a true one", "score": 0.4}],
            "stale": [{**item, "row": 7, "text": "a stale one", "true_rank": 1234}],
            "corrected": [{**item, "true_rank": 1}],
        }
    ]
    summary = {
        "gap_recovered": {"corrected": {"recall@10": 0.5}, "stale": {"recall@10": None}},
        "gap_recovered_interval": {"corrected": {"recall@10": [0.25, 0.75]}},
        "p_value": {
            "stale": {"corrected": {"recall@10": 0.0004}},
            "exhaustive": {"corrected": {"recall@10": 0.25}, "stale": {"recall@10": None}},
        },
    }
    data = {"name": "world", "targets": 1000, "train_pairs": 80, "test_pairs": 20}
    return {"data": data, "runs": runs, "summary": summary}


@pytest.fixture
def hostile() -> str:
    return HOSTILE


@pytest.fixture
def one_run() -> Callable[..., Results]:
    """The least that a results.json can have, and what a test adds to its one run."""

    def build(**more: object) -> Results:
        return {"runs": [{"strategy": "stale", "metrics": {"recall@10": 0.5}, **more}]}

    return build
