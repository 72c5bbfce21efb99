"""What a stock trainer would get wrong with a loss that owns weights."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_targets
from unstale.encoders.load import load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.evaluation.metrics import means, measure
from unstale.evaluation.retrieve import fresh_chunks, retrieve
from unstale.training.job import train
from unstale.training.prepare import prepare
from unstale.training.settings import TrainSettings

SMALL = {
    "strategy": "corrected",
    "steps": 6,
    "batch_size": 8,
    "hard_negatives": 2,
    "corrector_hidden": (24,),
    "learning_rate": 1e-2,
    "probe_queries": 8,
    "probe_targets": 40,
    "progress": False,
}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {
        f"{file.parent.name}/{k}": v
        for file in sorted(folder.rglob("*.safetensors"))
        for k, v in load_file(file).items()
    }


@pytest.fixture
def start(bert_folder: Path):
    def load() -> SentenceTransformer:
        return load_encoder(str(bert_folder), towers="separate", layers=1, device="cpu")

    return load


def move_away(model: SentenceTransformer) -> None:
    """Take an encoder away from its buffer, so that the corrector has something to learn."""
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=noise))


def test_the_correctors_weight_does_not_touch_the_encoders_update(
    start, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    """One step from the same start, so with the same candidates; clipping is on (norm 1)."""
    options = SMALL | {"steps": 1, "trainer": {"max_grad_norm": 0.1}}
    for weight in (0.0, 10.0):
        train(dataset, start(), tmp_path / str(weight), corrector_weight=weight, **options)
    zero, ten = (weights(tmp_path / w / "model") for w in ("0.0", "10.0"))
    assert zero.keys() == ten.keys()
    for name, value in zero.items():
        assert torch.equal(value, ten[name]), name


def test_the_corrector_is_clipped_by_its_own_norm(
    start, dataset: RetrievalDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unstale.training.trainer import FreshTrainer

    norms: list[tuple[float, float]] = []
    plain = FreshTrainer._clip_grad_norm

    def watch(self: FreshTrainer, model):
        result = plain(self, model)
        own = [p.grad for p in self.algorithm.miner.parameters() if p.grad is not None]
        encoders = [p.grad for p in self.model.parameters() if p.grad is not None]
        norms.append(
            tuple(torch.cat([g.flatten() for g in gs]).norm().item() for gs in (own, encoders))
        )
        return result

    monkeypatch.setattr(FreshTrainer, "_clip_grad_norm", watch)
    options = SMALL | {"corrector_weight": 1e6, "trainer": {"max_grad_norm": 0.01}}
    train(dataset, start(), tmp_path / "run", **options)
    assert len(norms) == 6
    for own, encoders in norms[1:]:  # at the first step fresh equals stale: nothing to learn
        assert own == pytest.approx(0.01, rel=1e-3)
        assert encoders == pytest.approx(0.01, rel=1e-3)


def test_accumulation_averages_the_gradients_of_its_parts(
    start, dataset: RetrievalDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two halves accumulated give the mean of what each gives alone, for both sets of weights."""
    from unstale.training.trainer import FreshTrainer

    grads: list[dict[str, torch.Tensor]] = []
    plain, begin = FreshTrainer._clip_grad_norm, FreshTrainer.create_optimizer

    def watch(self: FreshTrainer, model):
        named = self.algorithm.named_parameters()
        grads.append({k: p.grad.clone() for k, p in named if p.grad is not None})
        return plain(self, model)

    def moved(self: FreshTrainer, *args):
        move_away(self.model)
        return begin(self, *args)

    monkeypatch.setattr(FreshTrainer, "_clip_grad_norm", watch)
    monkeypatch.setattr(FreshTrainer, "create_optimizer", moved)
    options = SMALL | {"learning_rate": 0.0, "corrector_lr": 0.0, "uniform_negatives": 0}
    options |= {"memory": False, "meter_steps": 1000}  # nothing moves
    train(dataset, start(), tmp_path / "parts", **options | {"steps": 2, "batch_size": 4})
    halves = options | {"steps": 1, "batch_size": 4}
    train(
        dataset, start(), tmp_path / "whole", trainer={"gradient_accumulation_steps": 2}, **halves
    )
    first, second, whole = grads
    assert min(float(g["miner.network.layers.1.weight"].abs().max()) for g in grads) > 1e-3
    for name, grad in whole.items():
        torch.testing.assert_close((first[name] + second[name]) / 2, grad)


def test_a_checkpoint_restores_corrector_and_optimizer(
    start, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    options = SMALL | {"save_steps": 3}
    train(dataset, start(), tmp_path / "run", **options)
    saved = load_file(tmp_path / "run" / "checkpoints" / "checkpoint-3" / "miner.safetensors")
    assert saved["network.layers.1.weight"].abs().max() > 0  # learnt, and saved
    state = torch.load(
        tmp_path / "run" / "checkpoints" / "checkpoint-3" / "optimizer.pt", weights_only=True
    )
    shapes = {tuple(s["exp_avg"].shape) for s in state["state"].values()}
    assert tuple(saved["network.layers.1.weight"].shape) in shapes
    assert not list((tmp_path / "run").rglob("training_args.bin"))  # nothing of ours is pickled


@pytest.mark.parametrize("towers", ["tied", "separate"])
@pytest.mark.parametrize("kind", ["tiny", "bert"])
def test_the_trained_folder_is_plain_sentence_transformers_with_the_same_metrics(
    bert_folder: Path, dataset: RetrievalDataset, tmp_path: Path, kind: str, towers: str
) -> None:
    name = "tiny" if kind == "tiny" else str(bert_folder)
    model = load_encoder(
        name,
        towers=towers,  # type: ignore[arg-type]
        query_prompt="ask: ",
        query_max_length=9,
        target_max_length=9,
        device="cpu",
    )
    result = train(dataset, model, tmp_path / "run", **SMALL)
    plain = SentenceTransformer(str(tmp_path / "run" / "model"), device="cpu")
    qrels = dataset.split("test")
    queries = torch.tensor(plain.encode_query(dataset.queries.take(qrels.query_rows)))
    targets = torch.tensor(plain.encode_document(dataset.targets.take(range(120))))
    best = (queries @ targets.T).topk(100, dim=1)
    from unstale.search.best import TopK

    measured = means(measure(qrels, qrels.query_rows, TopK(*best)))
    assert measured == pytest.approx(by_targets(result.metrics))


def test_freezing_needs_separate_towers_and_freezes_one(
    bert_folder: Path, start, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    tied = load_encoder(str(bert_folder), device="cpu")
    with pytest.raises(InputError, match="needs separate towers"):
        train(dataset, tied, tmp_path / "tied", **SMALL | {"strategy": "stale-frozen"})
    before, model = start(), start()
    train(dataset, model, tmp_path / "run", **SMALL | {"strategy": "stale-frozen", "guard": False})
    tokens = target_tokens(model, dataset, progress=False)
    rows = np.arange(len(tokens))
    from unstale.encoders.embed import embed_queries, embed_targets

    assert torch.equal(embed_targets(model, tokens, rows), embed_targets(before, tokens, rows))
    texts = dataset.queries.take([0, 1])
    assert not torch.allclose(embed_queries(model, texts), embed_queries(before, texts))


@pytest.mark.usefixtures("bfloat16")
def test_mixed_precision_leaves_search_and_losses_in_full(
    start, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    options = SMALL | {"steps": 3, "trainer": {"bf16": True}, "guard": False}
    half = train(dataset, start(), tmp_path / "half", **options)
    full = train(dataset, start(), tmp_path / "full", **SMALL | {"steps": 3})
    assert load_file(tmp_path / "half" / "corrector.safetensors").keys()
    first, second = (r.freshness[-1]["kl_stale"] for r in (half, full))
    assert first == pytest.approx(second, rel=0.2)
    assert first != second  # the encoders did run in half precision


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("in_memory", [True, False])
def test_the_cache_is_made_in_the_precision_of_the_trainer(
    bert_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path, in_memory: bool
) -> None:
    settings = TrainSettings(strategy="corrected", steps=1, batch_size=8, trainer={"bf16": True})
    checked, pairs = settings.check(dataset, bert_model), dataset.split("train").pairs
    prepared = prepare(bert_model, dataset, checked, None if in_memory else tmp_path, pairs)
    assert prepared.buffer is not None
    rows = torch.arange(len(prepared.tokens))
    full = embed_targets(bert_model, prepared.tokens, rows.numpy())
    with torch.autocast("cpu", torch.bfloat16):
        half = embed_targets(bert_model, prepared.tokens, rows.numpy())
    assert torch.equal(prepared.buffer[rows], half)
    assert not torch.equal(full, half)


@pytest.mark.usefixtures("bfloat16")
def test_mixed_precision_is_measured_in_full_before_and_after(
    bert_folder: Path, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    """A learning rate of 0 leaves the model as it is, and so every score of the ranking."""
    options = SMALL | {"steps": 2, "learning_rate": 0.0, "guard": False, "eval_steps": 1}
    model = load_encoder(str(bert_folder), device="cpu")
    rows = dataset.split("test").query_rows
    tokens = target_tokens(model, dataset, progress=False)
    before = retrieve(model, dataset, rows, fresh_chunks(model, tokens, progress=False))
    result = train(dataset, model, tmp_path, trainer={"bf16": True}, **options)
    lines = (tmp_path / "test.run").read_text().splitlines()
    scores = [float(line.split()[4]) for line in lines]
    assert scores == pytest.approx(before.scores.flatten().tolist(), abs=1e-6)
    assert by_targets(result.metrics) == by_targets(result.initial_metrics)
    assert result.curve[0]["ndcg@10"] == result.initial_metrics["ndcg@10"]


def by_targets(metrics: Mapping[str, float]) -> dict[str, float]:
    """Leave out what is measured by answers."""
    return {name: value for name, value in metrics.items() if not name.startswith("answer")}


def test_training_teaches(start, dataset: RetrievalDataset, tmp_path: Path) -> None:
    result = train(dataset, start(), tmp_path / "run", **SMALL | {"steps": 60})
    assert result.metrics["ndcg@10"] > result.initial_metrics["ndcg@10"] + 0.1
    assert result.targets_reembedded == 0
    assert result.targets_embedded == 120
    tokens = target_tokens(start(), dataset, progress=False)
    rows = dataset.split("test").query_rows
    found = retrieve(start(), dataset, rows, fresh_chunks(start(), tokens, progress=False))
    measured = means(measure(dataset.split("test"), rows, found))
    assert measured == by_targets(result.initial_metrics)


def test_epochs_are_counted_once(start, dataset: RetrievalDataset, tmp_path: Path) -> None:
    """Logs, results and the command line agree, though a last short batch is left out."""
    pairs, run = len(dataset.split("train").pairs), tmp_path / "run"
    size = pairs // 2 + 1  # of which only one batch fits into an epoch
    more = {"batch_size": size, "steps": 4, "save_steps": 4, "guard": False}
    more |= {"trainer": {"gradient_accumulation_steps": 2, "logging_steps": 4}}
    result = train(dataset, start(), run, **SMALL | more)
    assert result.epochs == pytest.approx(4 * 2 * size / pairs)
    state = json.loads((run / "checkpoints" / "checkpoint-4" / "trainer_state.json").read_text())
    assert state["log_history"][-1]["epoch"] == pytest.approx(result.epochs)


def test_training_queries_are_measured_beside_the_split(
    start, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    model = start()
    tokens, rows = target_tokens(model, dataset, progress=False), dataset.split("train").query_rows
    train_split = dataset.split("train")

    def on_training(model: SentenceTransformer) -> dict[str, float]:
        found = retrieve(model, dataset, rows, fresh_chunks(model, tokens, progress=False))
        return means(measure(train_split, rows, found))

    before = on_training(model)
    result = train(dataset, model, tmp_path / "run", eval_steps=4, **SMALL | {"steps": 60})
    assert by_targets(result.initial_train_metrics) == before
    assert by_targets(result.train_metrics) == on_training(model)
    assert result.train_metrics["recall@1"] > before["recall@1"] + 0.1
    assert [point["step"] for point in result.curve] == list(range(4, 61, 4))
    last = {k.removeprefix("train_"): v for k, v in result.curve[-1].items() if "train_" in k}
    assert last == result.train_metrics
    assert result.curve[0]["train_recall@1"] != last["recall@1"]  # measured then, not copied


@pytest.mark.parametrize("search", ["rolling", "exact"])
def test_a_search_that_is_not_exact_says_how_near_it_is(
    start, dataset: RetrievalDataset, tmp_path: Path, search: str
) -> None:
    options = SMALL | {"steps": 16, "search": search, "meter_steps": 8}
    found = train(dataset, start(), tmp_path / "run", **options).searched
    if search == "exact":
        assert not found
        return
    assert [reading["step"] for reading in found] == [8, 16]
    for reading in found:
        assert 0.9 < reading["overlap"] <= 1
        assert reading["reranked"] > 0
        assert reading["renewed"] >= 0
