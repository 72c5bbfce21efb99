"""The page: its numbers by hand, hostile texts as text, and whatever may be missing."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.report.pages import Reader, cells, read

from unstale.cli.main import main
from unstale.report.page import build_page


def test_the_table_has_means_spreads_and_costs(results: dict[str, Any]) -> None:
    page = build_page(results, {})
    # Seeds of 50 and 60: mean 55, standard deviation 10 / sqrt(2) = 7.07.
    row = cells(page, "corrected")
    assert row[:6] == ["2", *["55.0 ± 7.1"] * 5]
    assert row[6:] == ["90%", "0", "0", "2.00", "20 s"]  # seen, costs, steps/s, training
    assert cells(page, "exhaustive")[7:9] == ["9,000", "5"]  # re-embedded, and as a sample
    assert cells(page, "before training")[2].startswith("20.0")
    comparison = build_page(results, {}).partition('class="comparison"')[2]
    assert cells(comparison, "corrected") == ["50% [25, 75]", "<.001", "0.250"]
    assert cells(comparison, "stale") == ["\u2013"] * 3
    assert "one seed" not in comparison


def test_the_comparison_has_every_gap_and_marks_one_seed(results: dict[str, Any]) -> None:
    gaps, bounds = {"recall@1": 0.2, "recall@10": 0.5}, {"recall@1": [-0.1, 0.4]}
    results["summary"]["gap_recovered"]["corrected"] = gaps
    results["summary"]["gap_recovered_interval"]["corrected"] |= bounds
    results["summary"]["interval_seeds"] = {"corrected": 1}
    page = build_page(results, {})
    comparison = page.partition('class="comparison"')[2]
    shown = cells(comparison, "corrected")[:2]
    assert shown == ["20% [\u221210, 40]*", "50% [25, 75]*"]
    assert "*: of one seed" in comparison
    assert "(95% interval: 25% to 75%, over queries alone)" in Reader(page).text


def test_the_summary_says_what_came_out(results: dict[str, Any]) -> None:
    text = read(results, model="tiny").text
    assert "world, 1,000 targets, 80 training pairs; measured on the test split (20 pairs)" in text
    assert "Encoder: tiny. Strategies: 3, trained with 2 seeds for 20 steps." in text
    assert "recall@10, corrected, from 20.0% before training; exhaustive reached 65.0%" in text
    assert "of the gap from stale to exhaustive recovered (95% interval: 25% to 75%)" in text
    assert "held at the end of training: stale 50%, corrected 90%, exhaustive 50%." in text
    assert "It took 3 min 0 s in all." in text  # six runs of 30 seconds


def test_any_strategy_that_corrects_its_cache_gets_the_sentences(results: dict[str, Any]) -> None:
    for run in results["runs"]:
        if run["strategy"] == "corrected":
            run["strategy"] = "staged"
    seen = Reader(build_page(results, {}))
    assert "stale 50%, staged 90%, exhaustive 50%." in seen.text
    assert "recall@10, staged, from 20.0% before training; exhaustive" in seen.text


def test_the_sentence_and_the_table_agree_on_the_stale_cache(results: dict[str, Any]) -> None:
    for run in results["runs"]:
        if run["strategy"] == "corrected":
            run["freshness"][-1]["overlap_stale"] = 0.7  # a cache and an encoder of its own
    page = build_page(results, {})
    assert cells(page, "stale")[6] == "50%"
    assert "held at the end of training: stale 50%, corrected 90%" in Reader(page).text


def test_costs_are_means_over_seeds_and_samples_have_a_place_of_their_own(
    results: dict[str, Any],
) -> None:
    results["runs"][5]["targets_reembedded"] = (
        3000  # the second seed of exhaustive; the first 9,000
    )
    for run in results["runs"]:
        del run["targets_sampled"]  # as in results of another time
    page = build_page(results, {})
    assert cells(page, "exhaustive")[7:] == ["6,000", "2.00", "20 s"]
    assert "ampled" not in page
    chart = page.partition("by strategy")[2].partition("</svg>")[0]
    assert ">exhaustive: 65.0 ± 7.1, 6,000 re-embedded<" in chart
    results["runs"][0]["targets_sampled"] = 80_000
    page = build_page(results, {})
    assert cells(page, "exhaustive")[7:] == ["6,000", "\u2013", "2.00", "20 s"]
    # A sample renews no target: the figure stays as it is.
    assert page.partition("by strategy")[2].partition("</svg>")[0] == chart


def test_every_section_is_there(results: dict[str, Any]) -> None:
    page = build_page(results, {"model": "tiny"})
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles == [
        "Results",
        "recall@10 by strategy",
        "Freshness",
        "recall@10 during training",
        "What is mined",
    ]
    # A panel for each of 3 strategies; the strategies; 2 charts of the curves.
    assert page.count("<svg") == 3 + 1 + 2


def test_that_some_strategies_have_no_view_is_said_where_freshness_is_drawn(
    results: dict[str, Any],
) -> None:
    assert "not drawn" not in build_page(results, {})
    for name in ("stochastic", "uniform"):
        results["runs"].append(results["runs"][0] | {"strategy": name, "freshness": []})
    assert "Strategies that keep no embedding of every target are not drawn." in read(results).text


def test_a_curve_begins_before_training(results: dict[str, Any]) -> None:
    page = build_page({**results, "runs": results["runs"][:1]}, {})
    curve = page.partition("against steps</summary>")[2].partition("</svg>")[0]
    (points,) = re.findall(r'<polyline class="line[^"]*" points="([^"]*)"', curve)
    assert len(points.split()) == 3  # step 0 from the initial metrics, then 10 and 20
    assert points.split()[0].startswith("44.0,")  # where the axis begins


def test_training_queries_are_drawn_beside_the_splits(results: dict[str, Any]) -> None:
    for run in results["runs"]:
        run["initial_train_metrics"] = {"recall@10": 0.1}
        run["curve"] = [point | {"train_recall@10": 0.9} for point in run["curve"]]
    page = build_page(results, {})
    section = page.partition("<h2>Training queries</h2>")[2].partition("</section>")[0]
    assert section.count("<svg") == 3  # a panel a strategy
    first = section.partition("</svg>")[0]
    assert ">test queries</text>" in first
    assert ">training queries</text>" in first
    split, trained = (
        [float(place.split(",")[1]) for place in points.split()]
        for points in re.findall(r'<polyline class="line[^"]*" points="([^"]*)"', first)
    )
    # From 0 to 100 the area is 160 high and ends at 188: 20% is 32 above, 10% 16, 90% 144.
    assert split[0] == 156.0
    assert trained == [172.0, 44.0, 44.0]


def test_a_run_that_memorised_is_said_to_have(results: dict[str, Any]) -> None:
    for run in results["runs"]:
        run["train_metrics"] = {"recall@1": run["metrics"]["recall@1"] + 0.2}
    assert "Memorised" not in read(results).text
    for run in results["runs"][:2]:  # stale, whose recall@1 is 0.4 and 0.5
        run["train_metrics"] = {"recall@1": run["metrics"]["recall@1"] + 0.3}
    said = "a much higher recall@1 on training queries than on test queries: stale (75% and 45%)."
    assert said in read(results).text
    page = build_page(results, {})
    assert cells(page, "stale")[6] == "75.0"  # after the seeds and five metrics


def test_examples_show_what_is_true_and_what_is_not(results: dict[str, Any]) -> None:
    text = read(results).text
    assert "from the cache as it is: 0 of the 2 nearest" in text
    assert "from the cache, corrected: 1 of the 2 nearest" in text
    assert "fresh rank 1,234" in text  # where the stale choice really stands
    assert "the label" in text


def test_the_command_writes_the_page_and_says_where(
    results: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results.json").write_text(json.dumps(results))
    private = "output: /somewhere/private\nbuffer: /my/buffer\ndevice: cuda:1\n"
    flags = "model: my-encoder\nsteps: 20\nmax_score: 0.95\nmapped: true\n"
    (tmp_path / "config.yaml").write_text(flags + private)
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"open {tmp_path / 'report.html'}\n"
    page = (tmp_path / "report.html").read_text("utf-8")
    table = dict(re.findall(r"<th scope='row'>(.*?)</th><td>(.*?)</td>", page))
    shown = {"model": "my-encoder", "steps": "20", "max_score": "0.95", "mapped": "True"}
    assert table == shown  # every flag but those of this machine
    assert "/somewhere/private" not in page
    (tmp_path / "config.yaml").write_text("- a list")
    assert main(["report", str(tmp_path)]) == 2
    assert "config.yaml" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "no run folder" in capsys.readouterr().err
