"""Settings: one declaration for Python and the command line, checked once, in one place."""

import copy
import sys
from argparse import SUPPRESS
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

import pytest
from jsonargparse import ArgumentParser
from sentence_transformers import SentenceTransformer

from unstale.buffer import fingerprint as fingerprints
from unstale.cli import options
from unstale.cli.flags import add_flags, known_flags
from unstale.cli.main import main
from unstale.data.dataset import RetrievalDataset
from unstale.declare import check_bounds, flag, taken_from
from unstale.encoders.cross import CrossScores
from unstale.errors import InputError
from unstale.filters import Filters
from unstale.miners import strategies
from unstale.rag.settings import RagSettings
from unstale.training.card import card_settings
from unstale.training.job import train
from unstale.training.settings import TrainSettings, without_effect

WORDS = {"least": "at least", "above": "above", "most": "at most"}
BOUNDS = [
    (kind, declared.name, rule, declared.metadata[rule])
    for kind in (TrainSettings, RagSettings)
    for declared in fields(kind)
    for rule in WORDS
    if declared.metadata.get(rule) is not None
]


def test_most_numbers_are_bounded() -> None:
    bounded = {name for kind, name, _, _ in BOUNDS if kind is TrainSettings}
    numbers = {
        name
        for name, hint in get_type_hints(TrainSettings).items()
        if hint in (int, float, int | None, float | None)
    }
    assert not numbers - bounded


@pytest.mark.parametrize(("kind", "name", "rule", "bound"), BOUNDS)
def test_a_value_outside_its_bounds_is_refused_by_its_flag(
    kind: type, name: str, rule: str, bound: float
) -> None:
    number = float if get_type_hints(kind)[name] in (float, float | None) else int
    bad = number({"least": bound - 1, "above": bound, "most": bound + 1}[rule])
    with pytest.raises(InputError) as refused:
        check_bounds(kind(**{name: bad}))
    assert str(refused.value) == f"{flag(name)} must be {WORDS[rule]} {bound}, got {bad}"
    if rule != "above":
        check_bounds(kind(**{name: number(bound)}))  # which is allowed itself
    if number is float:
        with pytest.raises(InputError, match="got nan"):
            check_bounds(kind(**{name: float("nan")}))


def test_bounds_hold_in_python_and_on_the_command_line(
    static_model: SentenceTransformer,
    dataset: RetrievalDataset,
    beir: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rule = "--probe-queries must be at least 1, got 0"
    with pytest.raises(InputError, match=rule):
        train(dataset, static_model, tmp_path / "run", probe_queries=0)
    where = ["--data", str(beir), "--output", str(tmp_path / "run")]
    assert main(["train", *where, "--probe-queries", "0"]) == 2
    assert rule in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_unknown_name_is_refused_with_the_nearest(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as refused:
        train(dataset, static_model, tmp_path / "run", batchsize=3)
    said = "TrainSettings has no setting 'batchsize'; did you mean batch_size?"
    assert str(refused.value) == said
    with pytest.raises(InputError, match=r"no setting 'qqq'$"):
        train(dataset, static_model, tmp_path / "run", qqq=3)
    assert not (tmp_path / "run").exists()


def test_strategies_read_settings_that_exist() -> None:
    known = {f.name for f in fields(TrainSettings)}
    for strategy in strategies().values():
        assert {*strategy.reads} <= known, strategy.name


def test_residuals_of_a_dot_product_model_need_more_than_cross_entropy(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    asked = TrainSettings(strategy="corrected", corrector_loss="ce")
    asked.check(dataset, static_model)  # unit embeddings cannot all shift together
    static_model.similarity_fn_name = "dot"
    with pytest.raises(InputError, match="cross-entropy lets all embeddings"):
        asked.check(dataset, static_model)
    replace(asked, memory=False).check(dataset, static_model)
    replace(asked, corrector_loss="mse").check(dataset, static_model)


def unread(settings: TrainSettings, *names: str) -> list[str]:
    known = strategies()
    return without_effect(settings, {name: known[name] for name in names}, known)


def test_what_has_no_effect_is_said() -> None:
    chosen = TrainSettings(corrector_hidden=24, rank=3, steps=9, sampling="gumbel")
    hidden, rank = unread(chosen, "stale")
    assert hidden.startswith("--corrector-hidden has no effect with stale; it is read by staged")
    assert rank == "--rank has no effect with stale; it is read by dynnibal"
    (rank,) = unread(chosen, "stale", "corrected")
    assert rank.startswith("--rank has no effect with stale and corrected")
    assert not unread(chosen, "corrected", "dynnibal")
    assert not unread(TrainSettings(), *strategies())


def test_a_command_says_what_has_no_effect(
    beir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = ["--data", str(beir), "--output", str(tmp_path / "run"), "--strategy", "in-batch"]
    assert main(["train", *where, "--steps", "1", "--batch-size", "4", "--rank", "3"]) == 0
    assert "--rank has no effect with in-batch; it is read by dynnibal" in caplog.text


def test_a_run_is_checked_once(
    beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_cross_encoder
) -> None:
    """The weights are hashed once, and a cross-encoder is loaded once."""
    calls: list[str] = []

    def counted(name: str, plain):
        def call(*given, **more):
            calls.append(name)
            return plain(*given, **more)

        return call

    plain = fingerprints.fingerprint
    for module in [m for name, m in sys.modules.items() if name.startswith("unstale.")]:
        if vars(module).get("fingerprint") is plain:
            monkeypatch.setattr(module, "fingerprint", counted("fingerprint", plain))
    monkeypatch.setattr(TrainSettings, "check", counted("check", TrainSettings.check))
    load = counted("cross-encoder", CrossScores.__init__)
    monkeypatch.setattr(CrossScores, "__init__", load)
    where = ["--data", str(beir), "--output", str(tmp_path / "run"), "--steps", "1"]
    where += ["--cross-encoder", str(write_cross_encoder(tmp_path / "cross"))]
    assert main(["train", *where, "--batch-size", "4", "--hard-negatives", "1"]) == 0
    assert sorted(calls) == ["check", "cross-encoder", "fingerprint"]


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (TrainSettings, options.TrainFlags),
        (TrainSettings, options.CompareFlags),
        (RagSettings, options.RagFlags),
    ],
)
def test_the_command_line_has_the_defaults_of_python(kind: type, flags: type) -> None:
    assert taken_from(kind, flags()) == kind()
    by_name = {f.name: f for f in fields(flags)}
    for declared in fields(kind):
        theirs = by_name[declared.name]
        assert theirs.default is declared.default, declared.name
        assert theirs.default_factory is declared.default_factory, declared.name
        assert theirs.metadata == declared.metadata, declared.name


def actions(kind: type) -> dict[str, str]:
    """Return the help of each flag that is shown, by its name."""
    parser = ArgumentParser(exit_on_error=False)
    add_flags(parser, kind, {})
    shown = [a for a in parser._actions if a.option_strings and a.help != SUPPRESS]
    return {a.option_strings[0]: a.help for a in shown}


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (TrainSettings, options.TrainFlags),
        (RagSettings, options.RagFlags),
        (Filters, options.TrainFlags),
    ],
)
def test_every_setting_is_a_flag_with_a_sentence(kind: type, flags: type) -> None:
    helps = actions(flags)
    assert {f"--{name}" for name in known_flags(flags)} == helps.keys() - {"-h"}
    for name in known_flags(kind):
        said = helps[f"--{name}"]
        assert said.rstrip().endswith("."), f"{name}: {said}"


def test_staged_shares_its_candidates(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    apart = TrainSettings(batch_size=8, share_candidates=False)
    with pytest.raises(InputError, match="staged needs --share-candidates: its first stage has no"):
        apart.check(dataset, static_model)
    replace(apart, strategy="corrected").check(dataset, static_model)


def test_staged_embeds_what_the_run_can_afford(
    static_model: SentenceTransformer,
    bert_model: SentenceTransformer,
    dataset: RetrievalDataset,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unstale.training.settings.FEWEST_HELD", 16)

    def held(model: SentenceTransformer, **chosen: object) -> int:
        settings = TrainSettings(batch_size=8, **chosen)  # type: ignore[arg-type]
        return settings.check(dataset, model).settings.mine_among

    assert held(bert_model, steps=5) == 5 * 8
    assert held(bert_model, steps=1) == 16
    assert held(bert_model, steps=100) == len(dataset.targets)
    assert held(static_model, steps=5) == len(dataset.targets)  # they embed in no time
    assert held(static_model, steps=5, mine_among=30) == 30
    assert held(bert_model, steps=5, strategy="stale") == 0  # it is for staged alone
    filters = Filters(relative_margin=0.05)
    assert held(bert_model, steps=5, filters=filters) == len(dataset.targets)
    with pytest.raises(InputError, match="--mine-among 30: filters of false negatives compare"):
        held(bert_model, steps=5, filters=filters, mine_among=30)
    with pytest.raises(InputError, match="--mine-among 4 is too small to mine 4 negatives"):
        held(bert_model, steps=5, mine_among=4)


def test_mining_begins_where_it_pays(
    static_model: SentenceTransformer,
    bert_model: SentenceTransformer,
    dataset: RetrievalDataset,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = TrainSettings(batch_size=8)
    for model, bound in ((bert_model, "10,000"), (static_model, "50,000")):
        assert few.check(dataset, model).settings.mine_from == 1.0
        assert f"than {bound} targets (here 120)" in few.check(dataset, model).skips_mining
    assert not replace(few, strategy="stale").check(dataset, static_model).skips_mining
    assert replace(few, mine_from=0.5).check(dataset, static_model).settings.mine_from == 0.5
    assert not replace(few, mine_from=0.5).check(dataset, static_model).skips_mining
    monkeypatch.setattr("unstale.training.settings._LARGE", 120)
    assert few.check(dataset, bert_model).settings.mine_from == 0.5
    assert not few.check(dataset, bert_model).skips_mining
    assert few.check(dataset, static_model).settings.mine_from == 1.0
    monkeypatch.setattr("unstale.training.settings._LARGE_FOR_STATIC", 120)
    assert few.check(dataset, static_model).settings.mine_from == 0.5


def test_a_run_that_mines_nothing_embeds_nothing(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    small = {"steps": 4, "batch_size": 8, "progress": False}
    runs = [
        train(dataset, copy.deepcopy(static_model), tmp_path / name, strategy=name, **small)
        for name in ("staged", "in-batch")
    ]
    assert [run.targets_embedded for run in runs] == [0, 0]
    assert runs[0].metrics == runs[1].metrics  # it is in-batch training
    assert runs[0].losses == runs[1].losses


def test_an_epoch_counts_the_pairs_of_all_parts_of_a_step(
    bert_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    """Two epochs of 80 pairs, in steps of two batches of 8."""
    parts = {"gradient_accumulation_steps": 2}
    asked = TrainSettings(epochs=2.0, batch_size=8, trainer=parts).check(dataset, bert_model)
    assert asked.settings.steps == 2 * 80 // (2 * 8)


@pytest.mark.parametrize("asked", [{}, {"hard_negatives": 3}])
def test_in_batch_training_does_not_say_that_it_mines(
    static_model: SentenceTransformer, dataset: RetrievalDataset, asked: dict[str, int]
) -> None:
    settings = TrainSettings(strategy="in-batch", batch_size=8, **asked)  # type: ignore[arg-type]
    checked = settings.check(dataset, static_model)
    assert checked.counts == (0, 0)
    assert card_settings(checked)["hard_negatives"] == 0
