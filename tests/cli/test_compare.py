"""A comparison: identical starts, cells that survive, and a summary of the promised form."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from unstale.cli.main import main
from unstale.cli.train import warn
from unstale.miners import Materials, Mined, Negatives, Queries, find_strategy, strategies
from unstale.training.settings import TrainSettings

SMALL = "--steps 4 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-targets 40"


@pytest.fixture
def compare(beir: Path, bert_folder: Path):
    def run(output: Path, *more: str) -> int:
        arguments = ["compare", "--data", str(beir), "--output", str(output)]
        model = ["--model", str(bert_folder), "--layers", "1", "--towers", "separate"]
        return main([*arguments, *model, "--no-measure-whole", *SMALL.split(), *more])

    return run


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], Tensor]]:
    """Watch every step of every cell: its batch, and what was mined for it."""
    seen: list[tuple[list[int], Tensor]] = []
    plain = Negatives.mine

    def watch(self: Negatives, queries: Queries) -> Mined:
        mined = plain(self, queries)
        rows = torch.cat([mined.hard, mined.uniform, mined.given], dim=1)
        seen.append((queries.rows.tolist(), rows))
        return mined

    monkeypatch.setattr(Negatives, "mine", watch)
    return seen


@pytest.mark.slow
def test_every_strategy_in_one_table(
    compare, steps, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ",".join(f"{s}:1" if s not in ("stale", "corrected") else s for s in strategies())
    flags = ["--strategies", names, "--seeds", "0,1", "--refreshes", "2", "--eval-steps", "2"]
    assert compare(tmp_path / "c", *flags) == 0
    results = json.loads((tmp_path / "c" / "results.json").read_text())
    assert len(results["runs"]) == len(strategies()) + 2
    starts = [json.dumps(run["initial_metrics"]) for run in results["runs"]]
    assert len(set(starts)) == 1
    by = {(r["strategy"], r["seed"]): r for r in results["runs"]}
    cells = {cell: steps[4 * i : 4 * i + 4] for i, cell in enumerate(by)}  # 4 steps each
    assert len(steps) == 4 * len(by)
    # The data order is the seed's alone.
    orders = {s: {str([b for b, _ in cells[c]]) for c in cells if c[1] == s} for s in (0, 1)}
    assert [len(order) for order in orders.values()] == [1, 1]
    assert orders[0] != orders[1]
    # 2 hard targets and a uniform one for each of 8 queries; `staged` mines after 3 of 4 steps.
    widths = dict.fromkeys(strategies(), [3] * 4) | {"in-batch": [0] * 4, "staged": [1, 1, 1, 3]}
    for (name, _), cell in cells.items():
        assert [mined.shape for _, mined in cell] == [(8, width) for width in widths[name]], name
    assert {len(set(row)) for _, m in cells["uniform", 0] for row in m.tolist()} == {3}
    assert by["exhaustive", 0]["targets_reembedded"] == 2 * 120
    assert by["two-round", 0]["targets_reembedded"] == 120
    assert by["stochastic", 0]["targets_reembedded"] == 2 * 120  # of so few, all
    assert by["dynnibal", 0]["targets_reembedded"] == 2 * 120
    assert by["dynnibal", 0]["targets_sampled"] == 2 * 120
    for name in ("corrected", "corrected-subset", "stale-rerank", "stale"):
        assert by[name, 0]["targets_reembedded"] == by[name, 0]["targets_sampled"] == 0
    assert [p["step"] for p in by["stale", 1]["curve"]] == [2, 4]
    assert by["stale", 1]["curve"][-1]["recall@10"] == by["stale", 1]["metrics"]["recall@10"]
    trained = by["stale", 1]["train_metrics"]["recall@10"]
    assert by["stale", 1]["curve"][-1]["train_recall@10"] == trained
    summary = results["summary"]
    assert set(summary["gap_recovered"]) == set(strategies())
    assert set(summary["gap_recovered"]["corrected"]) == set(by["stale", 0]["metrics"])
    shown = capsys.readouterr().out
    first, _, second = shown.partition("against stale and exhaustive")
    assert all(f" {name} " in second for name in strategies())
    lines = {line.split()[0]: line for line in first.splitlines() if line.split()}
    # Two seeds have a spread, one has none.
    assert [n for n in strategies() if "±" in lines[n]] == ["corrected", "stale"]


def test_finished_cells_survive_and_the_rest_is_done(
    compare, beir: Path, tmp_path: Path, capsys
) -> None:
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
    # One grade of the test split is another now: no finished cell goes into a table with it.
    other = shutil.copytree(beir, tmp_path / "other")
    judged, config = other / "qrels" / "test.tsv", folder / "config.yaml"
    judged.write_text(judged.read_text().replace("\t1\n", "\t2\n", 1))
    config.write_text(config.read_text().replace(str(beir), str(other)))
    assert main(["compare", "--resume", "--output", str(folder), "--seeds", "0,1"]) == 2
    assert "qrels changed since" in capsys.readouterr().err
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
        (["--refresh-schedule", "often"], "bad refresh schedule 'often'"),
        (
            ["--refresh-schedule", "0-4:2", "--refresh-every", "2"],
            "use --refresh-every or --refresh-schedule, not both",
        ),
        (["--strategy", "stale"], "--strategy stale: a comparison takes --strategies"),
        (["--seed", "3"], "--seed 3: a comparison takes --strategies and --seeds"),
    ],
)
def test_bad_input_is_named_before_any_work(
    compare, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], rule: str
) -> None:
    assert compare(tmp_path / "c", *flags) == 2
    assert rule in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("value", ["500", "0-4000:500"])
@pytest.mark.parametrize("command", ["train", "compare", "rag"])
def test_the_flag_that_meant_two_things_is_refused_with_those_that_mean_one(
    command: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--refresh 500` was 500 refreshes, and many took it for one after every 500 steps."""
    config = tmp_path / "old.yaml"
    config.write_text(f"refresh: {value}\n")
    for words in (["--refresh", value], [f"--refresh={value}"], ["--config", str(config)]):
        assert main([command, *words, "--output", str(tmp_path / "run")]) == 2
        said = capsys.readouterr().err
        assert "use --refreshes N for N re-embeddings in the run, --refresh-every N" in said
        assert "--refresh-schedule START-END:EVERY,..." in said
    assert not (tmp_path / "run").exists()


def refreshed(settings: TrainSettings) -> list[int]:
    """List the steps after which exhaustive re-embeds."""
    made = Materials(settings=settings, targets=1)
    return [step for step in range(1, settings.steps + 1) if made.schedule.due(step)]


def test_each_way_to_say_when_to_refresh() -> None:
    assert refreshed(TrainSettings(steps=8, refreshes=2)) == [4, 8]
    assert refreshed(TrainSettings(steps=8, refresh_every=3)) == [3, 6]
    assert refreshed(TrainSettings(steps=8, refresh_schedule="0-4:2,4-8:4")) == [2, 4, 8]


@pytest.mark.parametrize(("strategy", "warned"), [("exhaustive", True), ("two-round", False)])
def test_one_refresh_trains_nothing(
    strategy: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    warn(TrainSettings(refreshes=1, steps=5), {strategy: find_strategy(strategy)}, strategies())
    assert ("after the last step" in caplog.text) == warned
    caplog.clear()
    every = TrainSettings(refreshes=1, refresh_every=2, steps=5)
    warn(every, {"exhaustive": find_strategy("exhaustive")}, strategies())
    assert not caplog.text
