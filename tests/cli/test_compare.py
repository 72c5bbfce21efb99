"""A comparison: identical starts, cells that survive, and a summary of the promised form."""

import json
from pathlib import Path

import pytest
from torch import Tensor

from unstale.cli.main import main
from unstale.cli.options import CompareFlags
from unstale.cli.train import warn_of_refreshes
from unstale.miners import Queries
from unstale.training.algorithm1 import FreshNegativesLoss
from unstale.training.strategies import STRATEGIES

SMALL = "--steps 4 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-targets 40"


@pytest.fixture
def compare(beir: Path, bert_folder: Path):
    def run(output: Path, *more: str) -> int:
        arguments = ["compare", "--data", str(beir), "--output", str(output)]
        model = ["--model", str(bert_folder), "--layers", "1", "--towers", "separate"]
        return main([*arguments, *model, *SMALL.split(), *more])

    return run


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], Tensor]]:
    """Watch every step of every cell: its batch, and what was mined for it."""
    seen: list[tuple[list[int], Tensor]] = []
    plain = FreshNegativesLoss._mine

    def watch(self: FreshNegativesLoss, queries: Queries) -> Tensor:
        mined = plain(self, queries)
        seen.append((self.record.batch, mined))
        return mined

    monkeypatch.setattr(FreshNegativesLoss, "_mine", watch)
    return seen


@pytest.mark.slow
def test_every_strategy_in_one_table(
    compare, steps, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ",".join(f"{s}:1" if s not in ("stale", "corrected") else s for s in STRATEGIES)
    flags = ["--strategies", names, "--seeds", "0,1", "--refresh", "2", "--eval-steps", "2"]
    assert compare(tmp_path / "c", *flags) == 0
    results = json.loads((tmp_path / "c" / "results.json").read_text())
    assert len(results["runs"]) == len(STRATEGIES) + 2
    starts = [json.dumps(run["initial_metrics"]) for run in results["runs"]]
    assert len(set(starts)) == 1
    by = {(r["strategy"], r["seed"]): r for r in results["runs"]}
    cells = {cell: steps[4 * i : 4 * i + 4] for i, cell in enumerate(by)}  # 4 steps each
    assert len(steps) == 4 * len(by)
    # The data order is the seed's alone.
    orders = {s: {str([b for b, _ in cells[c]]) for c in cells if c[1] == s} for s in (0, 1)}
    assert [len(order) for order in orders.values()] == [1, 1]
    assert orders[0] != orders[1]
    # 2 hard targets and a uniform one, or 4 free ones, for each of 8 queries.
    widths = dict.fromkeys(STRATEGIES, 3) | {"in-batch": 0, "corrected-free": 6}
    for (name, _), cell in cells.items():
        assert {mined.shape for _, mined in cell} == {(8, widths[name])}, name
    assert {len(set(row)) for _, m in cells["uniform", 0] for row in m.tolist()} == {3}
    assert by["exhaustive", 0]["targets_reembedded"] == 2 * 120
    assert by["two-round", 0]["targets_reembedded"] == 120
    assert by["stochastic", 0]["targets_reembedded"] == 2 * 120  # of so few, all
    assert by["dynnibal", 0]["targets_reembedded"] == 2 * 120
    assert by["dynnibal", 0]["targets_sampled"] == 2 * 120
    for name in ("corrected", "corrected-mse", "corrected-subset", "stale-rerank", "stale"):
        assert by[name, 0]["targets_reembedded"] == by[name, 0]["targets_sampled"] == 0
    assert [p["step"] for p in by["stale", 1]["curve"]] == [2, 4]
    assert by["stale", 1]["curve"][-1]["recall@10"] == by["stale", 1]["metrics"]["recall@10"]
    summary = results["summary"]
    assert set(summary["gap_recovered"]) == set(STRATEGIES)
    assert set(summary["gap_recovered"]["corrected"]) == set(by["stale", 0]["metrics"])
    shown = capsys.readouterr().out
    first, _, second = shown.partition("against stale and exhaustive")
    assert all(f" {name} " in second for name in STRATEGIES)
    lines = {line.split()[0]: line for line in first.splitlines() if line.split()}
    # Two seeds have a spread, one has none.
    assert [n for n in STRATEGIES if "±" in lines[n]] == ["stale", "corrected"]


def test_finished_cells_survive_and_the_rest_is_done(compare, tmp_path: Path, capsys) -> None:
    folder = tmp_path / "c"
    flags = ["--strategies", "in-batch,stale", "--seeds", "0,1"]
    assert compare(folder, *flags) == 0
    whole = json.loads((folder / "results.json").read_text())
    kept = folder / "cells" / "stale-0" / "cell.json"
    stamp = kept.stat().st_mtime_ns
    (folder / "cells" / "stale-1" / "cell.json").unlink()
    (folder / "results.json").unlink()
    assert main(["compare", "--resume", "--output", str(folder)]) == 0
    again = json.loads((folder / "results.json").read_text())
    assert kept.stat().st_mtime_ns == stamp
    assert again["summary"] == whole["summary"]
    assert [r["metrics"] for r in again["runs"]] == [r["metrics"] for r in whole["runs"]]
    assert main(["compare", "--resume", "--output", str(folder)]) == 0
    assert "is finished" in capsys.readouterr().out
    assert main(["compare", "--resume", "--output", str(folder), "--seeds", "0"]) == 0
    assert len(json.loads((folder / "results.json").read_text())["runs"]) == 2


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        (["--strategies", "stale,newest"], "unknown strategy 'newest'"),
        (["--strategies", "stale,stale"], "names stale twice"),
        (["--strategies", "stale:4"], "expected a number from 1 to 3"),
        (["--seeds", "0,one"], "seeds must be different whole numbers"),
        (["--seeds", "1,1"], "seeds must be different whole numbers"),
        (["--strategies", "stale-frozen", "--towers", "tied"], "needs separate towers"),
        (["--refresh", "often"], "bad refresh schedule 'often'"),
        (["--strategy", "stale"], "--strategy stale: a comparison takes --strategies"),
        (["--seed", "3"], "--seed 3: a comparison takes --strategies and --seeds"),
        (["--dtype", "int8"], "--dtype int8: exhaustive writes to the buffer"),
    ],
)
def test_bad_input_is_named_before_any_work(
    compare, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], rule: str
) -> None:
    assert compare(tmp_path / "c", *flags) == 2
    assert rule in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("refresh", "steps", "warned"),
    [(500, 4000, True), (500, 5000, False), ("0-4000:500", 4000, False), (80, 300, False)],
)
def test_a_number_of_refreshes_that_looks_like_steps_is_explained(
    refresh: int | str, steps: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = CompareFlags(refresh=refresh, steps=steps)  # 80 is the default
    warn_of_refreshes(chosen, ["in-batch", "two-round"])
    assert not caplog.text
    warn_of_refreshes(chosen, ["in-batch", "exhaustive"])
    said = "--refresh 500 means 500 refreshes in 4000 steps"
    assert (said in caplog.text) == warned
    assert ("write --refresh 0-4000:500" in caplog.text) == warned
    assert bool(caplog.text) == warned


@pytest.mark.parametrize(("strategy", "warned"), [("exhaustive", True), ("two-round", False)])
def test_one_refresh_trains_nothing(
    strategy: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_refreshes(CompareFlags(refresh=1, steps=5), [strategy])
    assert ("after the last step" in caplog.text) == warned
    assert "means" not in caplog.text
