"""What a stock trainer would get wrong with a loss that owns weights, it gets right."""

from pathlib import Path

import pytest
import torch
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.trainer import _OptimizerZeroGradCallback
from tests.training.test_trainer import move_away
from transformers import TrainerCallback

from unstale import FreshNegatives
from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.hf import from_columns
from unstale.encoders.load import load_encoder, tower_modules
from unstale.errors import InputError
from unstale.training.job import train
from unstale.training.own_weights import gradient_norm
from unstale.training.settings import TrainSettings
from unstale.training.trainer import trainer_arguments

STAGED = {"strategy": "staged", "hard_negatives": 2, "mine_from": 0.5}


@pytest.fixture
def start(bert_folder: Path):
    def load(**options) -> SentenceTransformer:
        return load_encoder(str(bert_folder), layers=1, device="cpu", **options)

    return load


class Watch(TrainerCallback):
    """Keep the norms of both gradients when the optimizer steps, and whether they are dropped."""

    def __init__(self, fresh: FreshNegatives) -> None:
        self.fresh = fresh
        self.norms: list[tuple[float, float]] = []
        self.steps: list[int] = []
        self.left: list[bool] = []

    def on_substep_end(self, args, state, control, **_):
        self.steps.append(self.fresh.loss.algorithm.record.step)

    def on_optimizer_step(self, args, state, control, model, **_):
        own = gradient_norm(self.fresh.own_weights)
        self.norms.append((own, gradient_norm(list(model.parameters()))))
        self.steps.append(self.fresh.loss.algorithm.record.step)

    def on_step_end(self, args, state, control, **_):
        self.left.append(any(p.grad is not None for p in self.fresh.own_weights))


def test_a_frozen_target_tower_does_not_move(start, stock) -> None:
    model = start(towers="separate")
    before = {k: v.clone() for k, v in model.state_dict().items()}
    options = {"strategy": "stale-frozen", "corrector_hidden": 24}
    _, trainer = stock(model, options=options, router_mapping={"query": "query"})
    trainer.train()
    moved = {k for k, v in model.state_dict().items() if not torch.equal(v, before[k])}
    assert moved
    document = {id(p) for p in tower_modules(model, "document").parameters()}
    assert not moved & {k for k, p in model.named_parameters() if id(p) in document}


def state(fresh: FreshNegatives) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in fresh.loss.state_dict().items()}


def test_going_on_from_a_checkpoint_ends_with_the_same_bits(start, stock) -> None:
    """Saved, and restored: the encoders, the corrector with its memory."""
    fresh, trainer = stock(start(), save_strategy="steps", save_steps=2)
    trainer.train()
    whole, counters = state(fresh), fresh.loss.algorithm.record.counters
    again, trainer = stock(start(), save_strategy="steps", save_steps=2)
    trainer.train(resume_from_checkpoint=str(Path(trainer.args.output_dir) / "checkpoint-2"))
    assert any(k.startswith("algorithm.miner.") for k in whole)
    for name, value in state(again).items():
        assert torch.equal(value, whole[name]), name
    assert again.loss.algorithm.record.counters.targets_trained == counters.targets_trained

    (Path(trainer.args.output_dir) / "checkpoint-2" / "miner.json").unlink()
    _, trainer = stock(start())
    with pytest.raises(InputError, match="no corrector of step 2"):
        trainer.train(resume_from_checkpoint=str(Path(trainer.args.output_dir) / "checkpoint-2"))


def test_own_rate_own_clipping_own_zero_and_the_exact_step(start, stock) -> None:
    options = {"corrector_weight": 1e6, "corrector_lr": 0.0123}
    fresh, trainer = stock(
        start(), options=options, max_grad_norm=0.01, gradient_accumulation_steps=2, max_steps=3
    )
    trainer.remove_callback(_OptimizerZeroGradCallback)  # as in a version that has none
    watch = Watch(fresh)
    trainer.add_callback(watch)
    trainer.train()
    rates = {id(p): g["initial_lr"] for g in trainer.optimizer.param_groups for p in g["params"]}
    assert {rates[id(p)] for p in fresh.own_weights} == {0.0123}
    assert {rates[id(p)] for p in trainer.model.parameters()} == {1e-2}
    assert watch.steps == [0, 0, 1, 1, 2, 2]
    for own, encoders in watch.norms[1:]:  # at the first step fresh equals stale: nothing to learn
        assert own == pytest.approx(0.01, rel=1e-3)
        assert encoders == pytest.approx(0.01, rel=1e-3)
    assert watch.left == [False] * 3


class Gradients(TrainerCallback):
    """Keep the gradients of both sets of weights as the optimizer gets them."""

    def __init__(self, fresh: FreshNegatives) -> None:
        self.loss = fresh.loss
        self.found: list[dict[str, torch.Tensor]] = []

    def on_pre_optimizer_step(self, args, state, control, **_):
        named = self.loss.named_parameters()
        self.found.append({k: p.grad.clone() for k, p in named if p.grad is not None})


def test_accumulation_averages_the_gradients_of_its_parts(start, stock) -> None:
    """Two halves accumulated give the mean of what each gives alone, for both sets of weights."""
    options = {"corrector_lr": 0.0, "memory": False, "meter_steps": 1000}  # nothing moves
    options |= {"uniform_negatives": 0}  # which are drawn anew each step
    grads = []
    for parts in (1, 2):
        fresh, trainer = stock(
            start(), options=options, learning_rate=0.0, max_grad_norm=0.0,
            per_device_train_batch_size=4, max_steps=2 // parts, gradient_accumulation_steps=parts,
        )  # fmt: skip
        move_away(trainer.model)
        trainer.add_callback(watch := Gradients(fresh))
        trainer.train()
        grads += watch.found
    first, second, whole = grads
    assert (
        min(float(g["algorithm.miner.network.layers.1.weight"].abs().max()) for g in grads) > 1e-3
    )
    for name, grad in whole.items():
        torch.testing.assert_close((first[name] + second[name]) / 2, grad)


@pytest.mark.parametrize("strategy", [{"strategy": "corrected", "hard_negatives": 2}, STAGED])
def test_it_is_the_training_that_unstale_train_does(
    strategy: dict, start, stock, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    """The same loss, rows and order give the same weights, whoever's trainer it is."""
    shared = strategy | {"uniform_negatives": 0, "corrector_hidden": (24,)}
    model = start(towers="separate", query_prompt="ask: ")
    train(
        dataset, model, tmp_path / "run", steps=4, batch_size=8, learning_rate=1e-2,
        probe_queries=8, probe_targets=40, progress=False, guard=False, **shared,
    )  # fmt: skip
    other = start(towers="separate", query_prompt="ask: ")
    arguments = trainer_arguments(
        tmp_path / "other", TrainSettings(steps=4), 8, 1e-2, other.device, progress=False
    )
    _, trainer = stock(
        other,
        options=shared | {"corpus": list(dataset.targets)},
        **arguments | {"router_mapping": {"query": "query"}},
    )
    trainer.train()
    for (name, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_a_buffer_on_disk_is_found_again_and_refused_to_another_model(
    start, stock, tmp_path: Path
) -> None:
    folder = tmp_path / "buffer"
    stock(start(), options={"buffer": folder})
    made = {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}
    assert made
    stock(start(), options={"buffer": folder})
    assert {file: file.stat().st_mtime_ns for file in made} == made
    other = start()
    move_away(other)
    with pytest.raises(InputError, match="was made by something else"):
        stock(other, options={"buffer": folder})


def test_mistakes_are_told_before_training(
    start, stock, rows: Dataset, bert_model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        InputError, match="exhaustive needs the length of the run: give it as steps="
    ):
        FreshNegatives(bert_model, rows, strategy="exhaustive")
    with pytest.raises(InputError, match=r'no column query or anchor .* by columns=\{"query": COL'):
        FreshNegatives(bert_model, rows.rename_column("query", "q"))
    with pytest.raises(InputError, match=r"is of type DatasetDict; .* one: train_dataset\["):
        from_columns(DatasetDict({"train": rows}))
    cells = {"query": ["a", "b", "c"], "positive": ["c", "", None]}
    with pytest.raises(InputError, match="2 skipped, the column 'positive' is empty: rows 2, 3"):
        FreshNegatives(bert_model, Dataset.from_dict(cells))
    with pytest.raises(InputError, match="has no negatives of its own to take 2 from"):
        FreshNegatives(bert_model, rows, given_negatives=2)
    with pytest.raises(InputError, match="gives 'query' the prompt 'find: '"):
        stock(start(), prompts={"query": "find: "})
    with monkeypatch.context() as torchrun:
        torchrun.setenv("WORLD_SIZE", "2")
        with pytest.raises(InputError, match="need it to be one process"):
            FreshNegatives(bert_model, rows)
    _, trainer = stock(start())
    trainer.train_dataset = rows
    with pytest.raises(InputError, match="train on the dataset that FreshNegatives made"):
        trainer.train()


def test_an_evaluation_set_has_its_columns_as_ever(start, stock, rows: Dataset) -> None:
    """Its loss is that of MultipleNegativesRankingLoss, with which it can be compared."""
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = start()
    _, trainer = stock(model, given={"eval_dataset": rows.select(range(8))})
    found = trainer.evaluate()["eval_loss"]
    trainer.loss = MultipleNegativesRankingLoss(model)
    assert found == pytest.approx(trainer.evaluate()["eval_loss"], rel=1e-5)
