"""What `compare` prints: its numbers by hand."""

from typing import Any

import numpy as np
import pytest

from unstale.data.dataset import RetrievalDataset
from unstale.report.summary import summarise
from unstale.report.table import print_comparison, title_of
from unstale.results import RunResult

RECALL = {"stale": 0.5, "corrected": 0.7, "exhaustive": 0.9, "uniform": 0.6}
METRICS = ("recall@1", "recall@10", "recall@100")


@pytest.fixture
def printed(results: dict[str, Any], capsys: pytest.CaptureFixture[str]):
    """Compare strategies, each with so many seeds; return both tables' rows, and the second."""

    def show(seeds: dict[str, int]) -> tuple[dict[str, list[str]], dict[str, list[str]], str]:
        queries = np.tile([0.9, 1.1], 10)  # they differ, and share the gap alike
        values = {
            s: {i: dict.fromkeys(METRICS, queries * RECALL[s]) for i in range(n)}
            for s, n in seeds.items()
        }
        runs = [
            results["runs"][-1]
            | {"strategy": s, "seed": i, "metrics": {m: float(v.mean()) for m, v in found.items()}}
            | {"targets_reembedded": 100 * i, "targets_sampled": 7 * i}
            for s, by_seed in values.items()
            for i, found in by_seed.items()
        ]
        entries = [RunResult.from_json(run, "here") for run in runs]
        print_comparison(entries, summarise(values), title="world")
        text = capsys.readouterr().out
        first, _, second = text.partition("against ")
        return _rows(first), _rows(second), second

    return show


def _rows(text: str) -> dict[str, list[str]]:
    lines = [line.split() for line in text.splitlines()]
    return {line[0]: line[1:] for line in lines if line and line[0] in {*RECALL, "before"}}


def test_gaps_tests_and_seeds(printed) -> None:
    results, differences, text = printed({"stale": 2, "corrected": 2, "exhaustive": 2})
    assert results["corrected"][:4] == ["2", "70.0±0.0", "70.0±0.0", "70.0±0.0"]
    assert results["corrected"][4:] == ["50", "4", "2.00"]  # means of 0 and 100, 0 and 7; steps/s
    assert results["before"][0] == "20.0"
    # (0.7 - 0.5) / (0.9 - 0.5) = 0.5 on every query, so in every resample.
    above, below = ["+20.0", "[+20.0,", "+20.0]"], ["-20.0", "[-20.0,", "-20.0]"]
    tests = [*above, *below, "<.001", "<.001"]  # against stale, and against exhaustive
    assert differences["corrected"] == ["50%", "[50,", "50]"] * 3 + tests
    far = ["-40.0", "[-40.0,", "-40.0]", "<.001"]
    assert differences["stale"] == ["0%", "[0,", "0]"] * 3 + far  # against exhaustive
    far = ["+40.0", "[+40.0,", "+40.0]", "<.001"]
    assert differences["exhaustive"] == ["100%", "[100,", "100]"] * 3 + far
    assert "one seed" not in text
    assert "95% t interval over seeds" in text


def test_one_seed_is_marked(printed) -> None:
    _, differences, text = printed({"stale": 2, "exhaustive": 2, "uniform": 1})
    # (0.6 - 0.5) / (0.9 - 0.5) = 0.25
    assert differences["uniform"][:3] == ["25%", "[25,", "25]*"]
    assert differences["exhaustive"][:3] == ["100%", "[100,", "100]"]
    assert "*: of one seed" in text
    assert differences["uniform"][9:13] == ["one", "seed", "one", "seed"]  # no interval over seeds


def test_without_an_end_there_is_no_gap(printed) -> None:
    results, differences, text = printed({"stale": 1, "corrected": 1})
    assert results["stale"][3:] == ["0", "2.00"]  # one seed, nothing sampled: no columns
    assert differences == {"stale": [], "corrected": ["<.001"]}
    assert "gap" not in text
    assert "there is no interval over seeds" in " ".join(text.split())
    _, differences, _ = printed({"corrected": 2, "uniform": 1})
    assert not differences


def test_recall_on_training_queries_has_a_column(
    results: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run = results["runs"][0] | {"train_metrics": {"recall@1": 0.875}}
    for entry, shown in ((run, True), (results["runs"][0], False)):
        print_comparison([RunResult.from_json(entry, "here")], {"p_value": {}}, title="world")
        text = capsys.readouterr().out
        assert ("train R@1" in text) == shown
        assert ("87.5" in text) == shown


def test_a_table_says_on_how_many_queries_it_was_measured(dataset: RetrievalDataset) -> None:
    count = len(dataset.split("test").query_rows)
    assert count < 100
    few = f"test split ({count} queries, too few to tell similar models apart), in percent"
    assert title_of(dataset, "test") == f"{dataset.name}, {few}"
    assert title_of(dataset, "test,dev").startswith(f"{dataset.name}, test,dev split ({count} que")
