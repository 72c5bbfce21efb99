"""Grids of trainings, small: what they declare runs, survives, and lands in a table."""

import json
from dataclasses import replace
from inspect import signature
from pathlib import Path
from statistics import median

import pytest

from experiments.registry import find_study
from experiments.studies import (
    hard_negatives,
    hidden_units,
    quality_per_second,
    sampling,
    starting_points,
    uniform_negatives,
)
from experiments.studies.grid import AS_IT_IS, ENCODER_FLAGS, Grid
from unstale.cli.main import main
from unstale.data.dataset import RetrievalDataset
from unstale.declare import changed
from unstale.encoders.load import load_encoder
from unstale.errors import InputError
from unstale.training.cells import CELL
from unstale.training.settings import TrainSettings

SMALL = {
    "batch_size": 8,
    "hard_negatives": 2,
    "corrector_hidden": 24,
    "refreshes": 2,
    "probe_queries": 8,
    "probe_targets": 40,
    "learning_rate": 1e-3,
    "layers": 1,
    "towers": "separate",
    "device": "cpu",
}
STUDIES = [hard_negatives, hidden_units, sampling, starting_points, uniform_negatives]


@pytest.fixture(scope="module")
def small(beir: Path, bert_folder: Path) -> dict:
    return {"data": str(beir), "model": str(bert_folder), "steps": 2, "train": SMALL}


@pytest.fixture(scope="module")
def study(small: dict, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One study by the command line: each setting is a flag."""
    output = tmp_path_factory.mktemp("runs") / "study"
    flags = {"set.model": small["model"], "set.steps": 2, "set.seeds": "0,1"}
    flags |= {f"train.{name}": value for name, value in SMALL.items()}
    words = [word for name, value in flags.items() for word in (f"--{name}", f"{value}".lower())]
    command = ["experiment", "uniform-negatives", "--data", small["data"]]
    assert main([*command, "--output", str(output), *words]) == 0
    return output


def results(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text())


def test_rows_are_what_the_cells_measured(study: Path) -> None:
    found = results(study)
    rows = {row["variant"]: row for row in found["tables"][AS_IT_IS]}
    assert list(rows) == list(uniform_negatives.GRID.variants)
    assert found["settings"]["train"] == SMALL  # typed, not text
    for label, row in rows.items():
        own = [cell for cell in found["cells"] if cell["variant"] == label]
        assert [cell["seed"] for cell in own] == [0, 1]
        assert row["metrics"]["recall@10"] == [cell["metrics"]["recall@10"] for cell in own]
    for name in ("exhaustive", "corrected"):  # a variant does what it declares
        with_uniform, without = rows[name], rows[f"{name}, no uniform"]
        assert with_uniform["targets_trained"] > without["targets_trained"]
        assert with_uniform["p_value"][name] is None  # against itself
    assert rows["exhaustive"]["targets_reembedded"] == 2 * 120
    assert not list(study.rglob("model"))  # numbers are kept, models are not


def test_the_table_can_be_pasted(study: Path) -> None:
    text = (study / "table.md").read_text()
    table = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    rows = results(study)["tables"][AS_IT_IS]
    assert table[2][1] == "before"
    assert [line[1] for line in table[3:7]] == [row["variant"] for row in rows]
    first, second = rows[0]["metrics"]["recall@1"]
    spread = 100 * abs(first - second) / 2**0.5  # the standard deviation of two
    assert table[3][2] == f"{50 * (first + second):.1f} ± {spread:.1f}"
    assert "| T5, without | 24.87 | 79.82 |" in text
    assert (study / "figure.png").stat().st_size > 5_000


def test_finished_cells_survive(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = results(study)
    kept = study / "cells" / "as-it-is" / "corrected-0" / CELL
    stamp = kept.stat().st_mtime_ns
    (study / "cells" / "as-it-is" / "corrected-1" / CELL).unlink()
    command = ["experiment", "uniform-negatives", "--output", str(study)]
    assert main([*command, "--resume"]) == 0  # the folder knows the settings
    assert "corrected, no uniform: R@1" in capsys.readouterr().out
    assert kept.stat().st_mtime_ns == stamp
    for ours, theirs in zip(results(study)["cells"], whole["cells"], strict=True):
        assert ours["metrics"] == theirs["metrics"]
    assert main([*command, "--seed", "1", "--overwrite"]) == 2
    assert "has no setting seed" in capsys.readouterr().err


@pytest.mark.slow
def test_two_starts(small: dict, tmp_path: Path) -> None:
    few = {name: {"strategy": name} for name in ("two-round", "corrected")}
    short = replace(starting_points.GRID, variants=few, references=()).study()
    found = short.run(tmp_path, short.read(small | {"steps": 6, "seeds": 5}))
    before = {}
    for start, rows in found["tables"].items():
        (before[start],) = {json.dumps(row["initial_metrics"]) for row in rows}
        assert [row["targets_reembedded"] for row in rows] == [120, 0]
    made = json.loads((tmp_path / "starts" / "trained-for-retrieval" / CELL).read_text())
    assert json.loads(before[AS_IT_IS]) == made["initial_metrics"]
    assert json.loads(before[starting_points.TRAINED]) == pytest.approx(made["metrics"])
    assert before[AS_IT_IS] != before[starting_points.TRAINED]
    assert "Start: trained for retrieval" in (tmp_path / "table.md").read_text()


def recipes(output: Path, **given) -> dict:
    study = quality_per_second.STUDY
    return study.run(output, study.read(given))


@pytest.mark.slow
def test_recipes_are_given_the_same_time(small: dict, tmp_path: Path) -> None:
    two = ("in-batch", "corrected")
    given = small | {"steps": 4, "seeds": 1, "recipes": "in-batch; corrected"}
    found = recipes(tmp_path, **given, points=2)
    timed = results(tmp_path / "timing")
    paces = {name: [c for c in timed["cells"] if c["variant"] == name] for name in two}
    assert {len(cells) for cells in paces.values()} == {3}

    def going(cell: dict) -> float:  # the first step and the meter are not the pace
        seconds = cell["seconds"]
        return seconds["training"] - seconds["starting"] - seconds["metering"]

    pace = {name: median(4 / going(c) for c in cells) for name, cells in paces.items()}
    first = {name: median(c["seconds"]["starting"] for c in cells) for name, cells in paces.items()}
    fast, reference = found["tables"][AS_IT_IS]
    assert reference["steps"] == 4
    # All of the reference's time, its embedding too; in-batch has nothing to embed.
    whole = timed["embedding_seconds"][AS_IT_IS] + first["corrected"] + 3 / pace["corrected"]
    left = whole - first["in-batch"]
    assert fast["steps"] == round(1 + left * pace["in-batch"])
    for cell in found["cells"]:
        assert cell["curve"][-1]["step"] == cell["steps"]
        assert cell["curve"][-1]["recall@1"] == cell["metrics"]["recall@1"]
    assert found["embedding_seconds"] == timed["embedding_seconds"]  # embedded once
    assert (tmp_path / "figure.png").stat().st_size > 5_000
    with pytest.raises(InputError, match="not one step of 'in-batch' fits"):
        recipes(tmp_path, **given, seconds=1e-9)
    with pytest.raises(InputError, match="no recipe 'late', but in-batch; stale"):
        recipes(tmp_path, recipes="corrected;late")
    with pytest.raises(InputError, match="seconds must be given"):
        recipes(tmp_path, recipes="in-batch")
    with pytest.raises(InputError, match="must name a strategy"):
        recipes(tmp_path, more={"late": {"steps": 3}})


def test_the_steps_between_two_refreshes_stay() -> None:
    whole = {"exhaustive": {"strategy": "exhaustive"}}
    told = quality_per_second._for_steps(whole, {"exhaustive": 150}, 300)
    assert told["exhaustive"]["refreshes"] == 40  # 80 in 300 steps are 40 in 150


@pytest.mark.parametrize("module", STUDIES, ids=lambda m: m.GRID.name)
def test_what_is_declared_can_run_and_be_drawn(
    module, dataset: RetrievalDataset, study: Path, tmp_path: Path
) -> None:
    declared: Grid = module.GRID
    assert find_study(declared.name) is module.STUDY
    model = load_encoder("tiny", towers="separate", device="cpu")
    for settings in declared.variants.values():
        changed(TrainSettings(), settings).check(dataset, model)
    assert set(declared.references) <= set(declared.variants)
    (row, *_) = results(study)["tables"][AS_IT_IS]
    rows = [row | {"variant": label} for label in declared.variants]
    found = results(study) | {"tables": dict.fromkeys(declared.starts, rows)}
    declared.draw(found, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5_000
    if declared.paper:
        assert {len(line) for line in declared.paper.rows} == {len(declared.paper.columns)}


def test_every_flag_of_the_encoder_is_known_to_a_grid() -> None:
    assert tuple(signature(load_encoder).parameters)[1:] == ENCODER_FLAGS  # all but its name


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"train": {"batch": 8}}, "no setting 'batch'; did you mean batch_size"),
        ({"train": {"resume": True}}, "no setting 'resume'"),
        ({"train": {"batch_size": 100}}, "a batch of 100 needs as many training pairs"),
        ({"more": {"new": "stale"}}, "--set.more {'new': 'stale'}: expected a mapping of mappings"),
        ({"seeds": "0,0"}, "seeds must be different"),
        ({"more": {"Corrected!": {}}}, "would share a folder"),
        ({"more": {"new": {"strategy": "newest"}}}, "unknown strategy 'newest'"),
        ({"split": "training"}, "no split 'training'"),
    ],
)
def test_bad_settings_are_named_before_any_work(
    small: dict, tmp_path: Path, given: dict, rule: str
) -> None:
    with pytest.raises(InputError, match=rule):
        uniform_negatives.STUDY.run(tmp_path, uniform_negatives.STUDY.read(small | given))
    assert not list(tmp_path.iterdir())
