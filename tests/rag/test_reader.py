"""Fusion-in-Decoder against plain T5, and answering by either way."""

import json

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, BertConfig, BertModel

from unstale.encoders.declared import check_reader
from unstale.errors import InputError
from unstale.rag.answering import answer, marginal
from unstale.rag.load_reader import load_reader
from unstale.rag.reader import IGNORED, Encoded, Prompt, Reader, reader_input

QUESTIONS = ["which river was deep?", "which castle was old and quiet?"]
TARGETS = [
    ["The river is deep.", "The river is loud and number 3 is here.", "The bread is old."],
    ["The castle is old and quiet.", "The spider is golden.", "The castle is deep."],
]


def inputs() -> list[Prompt]:
    return [reader_input(q, t) for q, own in zip(QUESTIONS, TARGETS, strict=True) for t in own]


def test_one_target_is_plain_t5(reader: Reader) -> None:
    """Loss and generation of the stock model on the same input."""
    texts = [reader_input(q, own[0]) for q, own in zip(QUESTIONS, TARGETS, strict=True)]
    batch = reader.tokenizer([t.text for t in texts], padding=True, return_tensors="pt")
    labels = reader.labels(["deep", "old and quiet"])
    plain = reader.model(**batch, labels=labels)
    encoded = reader.encode(texts).fused(1)
    log_probs = reader.log_probs(encoded, labels)
    ours = -log_probs.sum() / (labels != IGNORED).sum()
    torch.testing.assert_close(ours, plain.loss)
    stock = reader.model.generate(**batch, max_new_tokens=6, do_sample=False, num_beams=1)
    decoded = [t.strip() for t in reader.tokenizer.batch_decode(stock, skip_special_tokens=True)]
    assert reader.generate(encoded) == decoded


def test_padding_and_order_change_nothing(reader: Reader) -> None:
    """A question alone, or beside a longer one; its targets in another order."""
    labels = reader.labels(["deep", "old and quiet"])
    together = reader.log_probs(reader.encode(inputs()).fused(3), labels)
    alone = reader.log_probs(reader.encode(inputs()[:3]).fused(3), reader.labels(["deep"]))
    torch.testing.assert_close(together[:1, : alone.shape[1]], alone, atol=1e-5, rtol=1e-5)
    turned = [inputs()[i] for i in (2, 0, 1)]
    moved = reader.log_probs(reader.encode(turned).fused(3), reader.labels(["deep"]))
    torch.testing.assert_close(moved, alone, atol=1e-5, rtol=1e-5)


def test_fused_gradients_equal_a_brute_force_concatenation(reader: Reader) -> None:
    labels = reader.labels(["deep"])
    reader.log_probs(reader.encode(inputs()[:3]).fused(3), labels).sum().backward()
    ours = {n: p.grad.clone() for n, p in reader.named_parameters()}
    reader.zero_grad()
    parts = [reader.encode([text]) for text in inputs()[:3]]
    whole = Encoded(torch.cat([p.states for p in parts], 1), torch.cat([p.mask for p in parts], 1))
    reader.log_probs(whole, labels).sum().backward()
    for name, parameter in reader.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, atol=1e-5, rtol=1e-4)


def test_the_marginal_answer_is_the_best_by_brute_force(reader: Reader) -> None:
    log_p = torch.log(torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]))
    said = answer(reader, QUESTIONS, TARGETS, log_p, fusion="marginal")
    for i, question in enumerate(QUESTIONS):
        single = [reader.encode([reader_input(question, t)]) for t in TARGETS[i]]
        proposed = {reader.generate(e)[0] for e in single}
        scores = {}
        for text in proposed:
            labels = reader.labels([text])
            likelihood = [reader.log_probs(e, labels).sum().exp() for e in single]
            scores[text] = sum(p * x for p, x in zip(log_p[i].exp(), likelihood, strict=True))
        assert said[i] == max(scores, key=scores.__getitem__)
        whole = reader.encode([reader_input(question, t) for t in TARGETS[i]])
        best = marginal(reader, whole, [said[i]], log_p[i])[0]
        torch.testing.assert_close(best, scores[said[i]].log(), atol=1e-4, rtol=1e-4)


def test_a_bart_reads_too_without_noise_and_reloads_the_same(reader: Reader, tmp_path) -> None:
    """Another family: learned positions, dropout inside its layers, a head tied to embeddings."""
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}
    config = BartConfig(
        vocab_size=len(reader.tokenizer), d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_ffn_dim=32, decoder_ffn_dim=32, encoder_attention_heads=2,
        decoder_attention_heads=2, max_position_embeddings=64, activation_dropout=0.5,
        decoder_start_token_id=1, forced_eos_token_id=None, **special,
    )  # fmt: skip
    BartForConditionalGeneration(config).save_pretrained(tmp_path / "bart")
    reader.tokenizer.save_pretrained(tmp_path / "bart")
    bart = load_reader(str(tmp_path / "bart"), max_length=40, answer_length=6).train()
    labels = bart.labels(["deep", "old and quiet"])
    first = bart.log_probs(bart.encode(inputs()).fused(3), labels)
    torch.testing.assert_close(bart.log_probs(bart.encode(inputs()).fused(3), labels), first)
    bart.save(tmp_path / "again")
    again = load_reader(str(tmp_path / "again"), max_length=40, answer_length=6)
    torch.testing.assert_close(again.log_probs(again.encode(inputs()).fused(3), labels), first)


def test_a_long_target_is_cut_and_counted_and_the_question_is_not(reader: Reader) -> None:
    """A target has its 40 tokens however long the question is."""
    long = reader_input("who " * 50 + "?", "river " * 60)
    encoded = reader.encode([long, reader_input("who?", "river " * 40), reader_input("who?", None)])
    assert reader.truncated == 1
    asked = len(reader.tokenizer(long.question)["input_ids"]) - 1  # without the end
    assert encoded.mask.sum(dim=1).tolist()[0] == asked + 40 + 1
    assert reader._tokens(long)[:asked] == reader.tokenizer(long.question)["input_ids"][:-1]
    assert reader._tokens(long)[-1] == reader.tokenizer.eos_token_id


def test_a_saved_reader_reads_the_same(reader: Reader, tmp_path) -> None:
    reader.save(tmp_path / "reader")
    again = load_reader(str(tmp_path / "reader"), max_length=40, answer_length=6)
    labels = reader.labels(["deep", "old and quiet"])
    ours = reader.log_probs(reader.encode(inputs()).fused(3), labels)
    torch.testing.assert_close(again.log_probs(again.encode(inputs()).fused(3), labels), ours)


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True},
        {"architectures": ["T5Model"], "num_decoder_layers": 2},  # T5 is so without saying it
        {"architectures": ["LlamaForCausalLM"]},
        {"architectures": ["GPT2LMHeadModel"]},
        {"model_type": "t5"},
        {"architectures": "damaged"},
    ],
)
def test_what_may_be_a_reader_is_left_to_the_loading(config: dict, tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    check_reader(str(tmp_path))


def test_readers_that_cannot_read(reader: Reader, tmp_path) -> None:
    BertModel(
        BertConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=1)
    ).save_pretrained(tmp_path / "bert")
    with pytest.raises(InputError, match="is a bert: a reader needs an encoder and a decoder"):
        load_reader(str(tmp_path / "bert"))
    with pytest.raises(InputError, match="is a bert: a reader needs an encoder and a decoder"):
        check_reader(str(tmp_path / "bert"))  # by its config alone
    reader.tokenizer.pad_token = None
    reader.save(tmp_path / "padless")
    with pytest.raises(InputError, match="no pad token"):
        load_reader(str(tmp_path / "padless"))
    with pytest.raises(InputError, match="cannot load the reader"):
        load_reader(str(tmp_path / "nothing"))
