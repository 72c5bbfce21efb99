"""The studies of the paper's tables, small: their rows, their parts put together, their costs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.registry import find_study
from experiments.studies import number_of_targets, recovered_gap, trade_off
from experiments.studies.grid import AS_IT_IS
from experiments.studies.price import encoded
from experiments.studies.subset import nested_subsets
from unstale.data.dataset import Qrels, RetrievalDataset
from unstale.declare import changed
from unstale.encoders.load import load_encoder
from unstale.errors import InputError
from unstale.schedule import Schedule
from unstale.training.cells import CELL
from unstale.training.settings import TrainSettings

SMALL = {
    "batch_size": 8,
    "corrector_hidden": 24,
    "probe_queries": 8,
    "probe_targets": 40,
    "learning_rate": 1e-3,
    "layers": 1,
    "towers": "separate",
    "device": "cpu",
}
STUDIES = [number_of_targets, recovered_gap, trade_off]
LITERAL = "to the letter, equation 5 as printed"


@pytest.fixture(scope="module")
def small(beir: Path, bert_folder: Path) -> dict:
    data = {"data": str(beir), "model": str(bert_folder), "split": "dev"}
    return data | {"steps": 3, "hard": 2, "train": SMALL}


def run(module, output: Path, **given) -> dict:
    return module.STUDY.run(output, module.STUDY.read(given))


@pytest.fixture(scope="module")
def first(small: dict, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of the table: the two ends of the gap."""
    folder = tmp_path_factory.mktemp("parts") / "first"
    run(recovered_gap, folder, **small, seeds="0,1", refreshes=2, rows="stale; exhaustive")
    return folder


@pytest.mark.parametrize("module", STUDIES, ids=lambda m: m.NAME)
def test_every_row_can_be_trained(module, dataset: RetrievalDataset) -> None:
    assert find_study(module.NAME) is module.STUDY
    model = load_encoder("tiny", towers="separate", device="cpu")
    settings = module.STUDY.read({"seeds": 0})
    for label, variant in module.variants(settings).items():
        checked = changed(TrainSettings(), variant).check(dataset, model)
        if label.startswith("to the letter"):
            own = checked.settings
            assert own.strategy == "corrected"
            assert not own.memory
            assert not own.fallback


def test_the_mix_and_the_rows_are_settings() -> None:
    settings = recovered_gap.STUDY.read({"hard": 6, "uniform": 6, "refreshes": 5})
    rows = recovered_gap.variants(settings)
    assert len(rows) == 11
    for label, row in rows.items():
        if label in ("in-batch", "staged", "staged, all targets"):  # which have their own numbers
            assert "hard_negatives" not in row
        else:
            assert (row["hard_negatives"], row["uniform_negatives"]) == (6, 6)
    losses = [row.get("corrector_loss") for label, row in rows.items() if "letter" in label]
    assert losses == ["distance", "mse", "ce"]
    assert rows["dynnibal, no re-embedding"]["full_refreshes"] == 0
    assert rows["exhaustive"]["refreshes"] == 5
    only = recovered_gap.variants(replace(settings, rows="stale; corrected"))
    assert list(only) == ["stale", "corrected"]
    with pytest.raises(InputError, match="there is no recipe 'fresh', but in-batch; staged"):
        recovered_gap.variants(replace(settings, rows="fresh"))


def test_parts_are_put_together(
    small: dict, first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = f"stale; {LITERAL}; exhaustive"
    train = SMALL | {"buffer": str(first / "buffer" / "as-it-is")}
    given = small | {"seeds": "0,1", "refreshes": 2, "cells_of": str(first), "train": train}
    found = run(recovered_gap, tmp_path, **given, rows=rows)
    said = capsys.readouterr().out
    assert said.count("taken over: ") == 4
    assert said.count("seed 0\n") == 2 + 1  # of stale and exhaustive taken over, one trained
    assert not (tmp_path / "buffer").exists()  # it was embedded once
    for label in ("stale-0", "stale-1", "exhaustive-0", "exhaustive-1"):
        kept, taken = (f / "cells" / "as-it-is" / label / CELL for f in (first, tmp_path))
        assert kept.read_text() == taken.read_text()
    stale, literal, exhaustive = found["tables"][AS_IT_IS]
    assert exhaustive["overlap"]["searched"] == 1
    assert 0 < stale["overlap"]["stale"] <= 1
    assert literal["targets_reembedded"] == 0
    gained = np.mean(literal["metrics"]["recall@10"]) - np.mean(exhaustive["metrics"]["recall@10"])
    over_seeds = literal["difference"]["exhaustive"]["recall@10"]
    assert over_seeds["mean"] == pytest.approx(gained)
    assert over_seeds["seeds"] == 2
    table = (tmp_path / "table.md").read_text()
    assert "R@10 vs exhaustive" in table
    assert "95% t interval over seeds" in table
    assert "| searched holds" in table
    assert (tmp_path / "figure.png").stat().st_size > 5_000
    assert "buffer" not in found["settings"]["train"]  # a path of this machine


def test_a_cell_made_of_something_else_is_refused(small: dict, first: Path, tmp_path: Path) -> None:
    given = small | {"seeds": "0", "cells_of": str(first), "rows": "stale; exhaustive"}
    given |= {"train": SMALL | {"buffer": str(first / "buffer" / "as-it-is")}}
    with pytest.raises(InputError, match="stale-0 was made of something else: steps is 3 there"):
        run(recovered_gap, tmp_path, **given | {"steps": 4})
    with pytest.raises(InputError, match=r"exhaustive-0 .* refreshes is 2 there and 3 here"):
        run(recovered_gap, tmp_path, **given, refreshes=3)
    assert not (tmp_path / "cells" / "as-it-is" / "exhaustive-0" / CELL).exists()


def test_one_seed_has_no_interval(small: dict, first: Path, tmp_path: Path) -> None:
    given = small | {"seeds": "1", "refreshes": 2, "cells_of": str(first)}
    given |= {"train": SMALL | {"buffer": str(first / "buffer" / "as-it-is")}}
    run(recovered_gap, tmp_path, **given, rows="stale; exhaustive")
    table = (tmp_path / "table.md").read_text()
    assert "There is no interval over seeds" in table
    assert "R@10 vs" not in table


def judged(dataset: RetrievalDataset, split: str) -> dict[str, set[str]]:
    """The ids of the relevant targets of each query."""
    found: dict[str, set[str]] = {}
    for query, target in dataset.split(split).pairs.tolist():
        found.setdefault(dataset.query_ids[query], set()).add(dataset.target_ids[target])
    return found


@pytest.fixture
def pairs_of_two(dataset: RetrievalDataset) -> RetrievalDataset:
    """The same world, where the target after a training query's own is relevant, too."""
    train = dataset.split("train")
    both = Qrels(
        query=np.repeat(train.query, 2),
        target=np.stack([train.target, (train.target + 1) % 120], axis=1).reshape(-1),
        grade=np.ones(2 * len(train.query), train.grade.dtype),
    )
    return replace(dataset, qrels={**dataset.qrels, "train": both})


@pytest.mark.parametrize("same", [True, False])
def test_subsets_are_nested_and_keep_whole_queries(
    pairs_of_two: RetrievalDataset, same: bool
) -> None:
    whole = pairs_of_two
    parts = nested_subsets(whole, [50, 80, 120], "test", same_pairs=same, seed=3)
    assert [len(part.targets) for part in parts.values()] == [50, 80, 120]
    small, middle, large = (set(part.target_ids) for part in parts.values())
    assert small < middle < large == set(whole.target_ids)
    everything = judged(whole, "train")
    asked = []
    for part in parts.values():
        assert judged(part, "test") == judged(whole, "test")
        asked.append(judged(part, "train"))
        assert all(targets == everything[query] for query, targets in asked[-1].items())
        texts = dict(zip(whole.target_ids, whole.targets, strict=True))
        assert [texts[key] for key in part.target_ids] == list(part.targets)
    assert len(asked[0]) >= 8
    if same:  # nothing but the number of targets differs
        assert asked[0] == asked[1] == asked[2]
        assert len(set().union(*asked[0].values(), *judged(whole, "test").values())) <= 40  # 80%
    else:
        assert len(asked[0]) < len(asked[1]) < len(asked[2]) == 80
    assert parts[120].targets.digest == whole.targets.digest  # a buffer of the whole fits
    with pytest.raises(InputError, match="cannot take"):
        nested_subsets(whole, [24], "test")
    with pytest.raises(InputError, match="cannot take"):
        nested_subsets(whole, [121], "test")


@pytest.mark.slow
def test_the_gain_is_measured_at_each_size(small: dict, tmp_path: Path) -> None:
    given = small | {"seeds": 0, "sizes": [60, 0], "rows": "in-batch; corrected"}
    found = run(number_of_targets, tmp_path, **given)
    assert found["settings"]["sizes"] == [60, 120]
    assert {size: data["targets"] for size, data in found["data"].items()} == {"60": 60, "120": 120}
    pairs = {data["train_pairs"] for data in found["data"].values()}
    assert len(pairs) == 1
    assert pairs.pop() >= 20
    for rows in found["tables"].values():
        assert [row["variant"] for row in rows] == ["in-batch", "corrected"]
    text = (tmp_path / "table.md").read_text()
    assert "Targets: 60" in text
    assert "Targets: 120" in text
    assert (tmp_path / "figure.png").stat().st_size > 5_000
    assert len(found["cells"]) == 4
    with pytest.raises(InputError, match="'in-batch', which must be among the rows"):
        run(number_of_targets, tmp_path / "b", **small, rows="corrected")


def test_refreshes_inside_a_run() -> None:
    for count in (1, 2, 5, 79):
        schedule = Schedule.parse(trade_off.inside(count, 300))
        assert schedule.count(300) == count
        assert not schedule.due(300)
    assert Schedule.parse(trade_off.inside(1, 300)).due(150)
    with pytest.raises(InputError, match="cannot refresh 300 times inside a run of 300"):
        trade_off.inside(300, 300)


@pytest.mark.slow
def test_what_is_reembedded_is_counted_before_and_after(
    small: dict, tmp_path: Path, dataset: RetrievalDataset
) -> None:
    given = {"seeds": 0, "refreshes": [1, 2], "refits": 3, "full_refreshes": [0, 1]}
    rows = "stale; dynnibal, 0 full; dynnibal, 1 full; exhaustive, 1; exhaustive; stochastic"
    found = run(trade_off, tmp_path, **small | given, rows=rows)
    embedded = {
        row["variant"]: (row["targets_reembedded"], row["targets_sampled"])
        for row in found["tables"][AS_IT_IS]
    }
    assert embedded == {
        "stale": (0, 0),
        "dynnibal, 0 full": (0, 3 * 120),  # of few targets, a sample is all of them
        "dynnibal, 1 full": (120, 2 * 120),  # a full refresh takes the place of a refit
        "exhaustive, 1": (120, 0),
        "exhaustive": (240, 0),
        "stochastic": (3 * 120, 0),
    }
    assert (tmp_path / "figure.png").stat().st_size > 5_000
    model = load_encoder("tiny", towers="separate", device="cpu")
    settings = trade_off.STUDY.read(small | given | {"rows": rows})
    trained = {c["variant"]: c["targets_trained"] for c in found["cells"]}
    for label, variant in trade_off.variants(settings).items():
        checked = changed(TrainSettings(steps=3, batch_size=8), variant).check(dataset, model)
        price = encoded(checked, 120)
        assert (price.reembedded, price.sampled) == embedded[label]
        # 3 steps of 8 queries with a label, 2 hard and 1 uniform; at most, since some are shared.
        assert trained[label] <= price.trained == 3 * 8 * 4
        assert price.measured == 120
        assert price.forwards == 3 * price.trained + sum(embedded[label]) + 120
    cell = json.loads((tmp_path / "cells" / "as-it-is" / "stale-0" / CELL).read_text())
    assert cell["negatives"] == {"hard": 2, "uniform": 1, "free": 0}
