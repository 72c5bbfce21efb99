"""What a script may choose by itself: honoured, or refused in a sentence."""

import shutil
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer

from unstale import FreshNegatives
from unstale.buffer.stored import Stored
from unstale.errors import InputError
from unstale.training import prepare


def test_an_optimizer_must_hold_the_corrector(bert_model: SentenceTransformer, stock) -> None:
    encoders = torch.optim.SGD(bert_model.parameters(), lr=1e-3)
    _, trainer = stock(bert_model, given={"optimizers": (encoders, None)})
    with pytest.raises(InputError, match="does not train the corrector: add a group"):
        trainer.train()
    fresh, trainer = stock(bert_model)
    groups = [{"params": bert_model.parameters()}]
    groups.append({"params": fresh.own_weights, "lr": fresh.corrector_lr})
    trainer.optimizer = torch.optim.SGD(groups, lr=1e-3)
    before = [w.clone() for w in fresh.own_weights]
    trainer.train()
    moved = [not torch.equal(a, b) for a, b in zip(before, fresh.own_weights, strict=True)]
    assert any(moved)


def given(fresh: FreshNegatives) -> int:
    return fresh.loss.algorithm.negatives.given_count


def test_as_many_given_negatives_as_a_row_has(
    bert_model: SentenceTransformer, caplog: pytest.LogCaptureFixture
) -> None:
    rows = {"query": ["a river"] * 5, "positive": ["some water"] * 5}
    rows["negative"] = [f"the hill {i}" for i in range(5)]
    small = {"hard_negatives": 1, "progress": False}
    fresh = FreshNegatives(bert_model, Dataset.from_dict(rows), **small)
    assert given(fresh) == 1
    assert "a query has up to 5 given negatives; 1 of them" in caplog.text
    rows["negative"] = [["one hill", "two hills"]] * 2 + [["three hills"]] * 3
    fresh = FreshNegatives(bert_model, Dataset.from_dict(rows), **small)
    assert given(fresh) == 2


def test_what_has_no_effect_is_said_and_what_needs_a_folder_is_refused(
    bert_model: SentenceTransformer, rows: Dataset, tmp_path: Path, caplog
) -> None:
    FreshNegatives(bert_model, rows, rank=3, buffer=tmp_path / "none", progress=False)
    assert "--rank has no effect with staged; it is read by dynnibal" in caplog.text
    assert "buffer has no effect with staged" in caplog.text
    caplog.clear()
    FreshNegatives(bert_model, rows, progress=False)
    assert "no effect" not in caplog.text
    with pytest.raises(InputError, match="mapped=True needs a folder"):
        FreshNegatives(bert_model, rows, strategy="stale", mapped=True, progress=False)


def test_a_distance_is_no_product(bert_model: SentenceTransformer, rows: Dataset) -> None:
    bert_model.similarity_fn_name = "euclidean"
    with pytest.raises(InputError, match="compares by euclidean: only cosine and dot product"):
        FreshNegatives(bert_model, rows)


def test_every_column_of_an_evaluation_set_has_its_prompt(
    bert_model: SentenceTransformer, stock, rows: Dataset
) -> None:
    bert_model.prompts = {"query": "ask: ", "document": "text: "}
    wider = rows.add_column("negative", rows["positive"][::-1]).add_column(
        "label", [1.0] * len(rows)
    )
    for given in (wider, {"dev": wider}):
        _, trainer = stock(bert_model, given={"eval_dataset": given})
        expected = {"query": "ask: ", "positive": "text: ", "negative": "text: "}
        assert trainer.data_collator.prompts == expected
        assert trainer.data_collator.router_mapping["negative"] == "document"


def test_an_evaluation_changes_nothing_of_the_training(
    bert_model: SentenceTransformer, stock, rows: Dataset
) -> None:
    labelled = rows.select(range(8)).add_column("label", [1.0] * 8)
    fresh, trainer = stock(bert_model, given={"eval_dataset": labelled})
    trainer.train()
    before = {k: v.clone() for k, v in fresh.loss.algorithm.miner.state_dict().items()}
    trained = fresh.loss.algorithm.record.counters.targets_trained
    unlabelled = trainer.evaluate(labelled.remove_columns("label"))["eval_loss"]
    assert trainer.evaluate()["eval_loss"] == pytest.approx(unlabelled)
    assert fresh.loss.algorithm.record.counters.targets_trained == trained
    for name, value in fresh.loss.algorithm.miner.state_dict().items():
        assert torch.equal(value, before[name]), name
    with pytest.raises(InputError, match="needs a column of queries and one of positives"):
        trainer.evaluate(fresh.dataset.select(range(8)))


def test_a_checkpoint_of_another_step_is_not_taken(
    bert_folder: Path, stock, tmp_path: Path
) -> None:
    saving = {"save_strategy": "steps", "save_steps": 2, "max_steps": 6}
    fresh, trainer = stock(SentenceTransformer(str(bert_folder), device="cpu"), **saving)
    trainer.train()
    last = {k: v.clone() for k, v in fresh.loss.algorithm.miner.state_dict().items()}
    other = SentenceTransformer(str(bert_folder), device="cpu")
    shutil.rmtree(tmp_path / "out" / "checkpoint-6")
    told = str(tmp_path / "out" / "checkpoint-2")
    again, trainer = stock(other, **saving, resume_from_checkpoint=told)
    trainer.train(resume_from_checkpoint=True)  # the newest, whatever the arguments still say
    for name, value in again.loss.algorithm.miner.state_dict().items():
        assert torch.equal(value, last[name]), name
    (tmp_path / "out" / "checkpoint-6" / "miner.json").unlink()  # killed while it was written
    _, trainer = stock(SentenceTransformer(str(bert_folder), device="cpu"), **saving)
    with pytest.raises(InputError, match=r"no corrector of step 6 .* from step 4, .*checkpoint-4"):
        trainer.train(resume_from_checkpoint=True)


def test_what_the_trainer_must_know_is_asked_for(
    bert_model: SentenceTransformer, stock, rows: Dataset
) -> None:
    with pytest.raises(InputError, match="group_by_label: labels are rows here"):
        stock(bert_model, batch_sampler="group_by_label")
    with pytest.raises(InputError, match="router_mapping sends 'query' to 'document'"):
        stock(bert_model, router_mapping={"query": "document"})
    _, trainer = stock(bert_model, options={"strategy": "exhaustive", "steps": 40})
    with pytest.raises(InputError, match="steps=40, but the run has 4"):
        trainer.train()
    _, trainer = stock(bert_model)
    alone = FreshNegatives(bert_model, rows, progress=False)
    stranger = SentenceTransformerTrainer(bert_model, trainer.args, alone.dataset, loss=alone.loss)
    with pytest.raises(InputError, match=r"call fresh\.attach\(trainer\) before training"):
        stranger.train()


def test_an_embedded_corpus_stands_in_memory_once(
    bert_model: SentenceTransformer, rows: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    plain = Stored.empty.__func__

    def counted(kind: type, targets: int, *more) -> Stored:
        made.append(targets)
        return plain(kind, targets, *more)

    monkeypatch.setattr(Stored, "empty", classmethod(counted))
    monkeypatch.setattr("unstale.miners.exhaustive._CHUNK", 16)
    pieces: list[int] = []
    embed = prepare.embed_targets

    def in_pieces(model, tokens, some, **more) -> torch.Tensor:
        pieces.append(len(some))
        return embed(model, tokens, some, **more)

    monkeypatch.setattr(prepare, "embed_targets", in_pieces)
    fresh = FreshNegatives(bert_model, rows, strategy="stale", progress=False)
    targets = len(fresh.loss.algorithm.tokens)
    assert made == [targets]
    assert sum(pieces) == targets
    assert max(pieces) <= 16
