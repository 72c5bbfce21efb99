"""A reader without an encoder against the stock model, one prompt at a time; and a run with it."""

from pathlib import Path

import pytest
import torch
from tests.rag.test_job import SMALL
from tests.rag.test_reader import QUESTIONS, TARGETS, inputs
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from unstale.errors import InputError
from unstale.rag.answering import answer
from unstale.rag.decoder_only import DecoderOnly
from unstale.rag.job import train_rag
from unstale.rag.load_reader import load_reader
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import IGNORED, Reader, reader_input
from unstale.rag.tiny_reader import tiny_reader

CHAT = "user {{ messages[0].content }} {% if add_generation_prompt %}so the bot says{% endif %}"
WORDS = "question: context: answer: Answer in a few words. user so the bot says"


def save_decoder(kind: str, questions: QuestionSet, folder: Path) -> None:
    """Write a small one with a tokenizer of whole words."""
    reader = tiny_reader([*questions.texts(), WORDS], width=16)
    torch.manual_seed(0)
    shared = {"vocab_size": len(reader.tokenizer), "bos_token_id": None, "eos_token_id": 1}
    if kind == "llama":
        LlamaForCausalLM(
            LlamaConfig(
                hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                max_position_embeddings=128, **shared,
            )
        ).save_pretrained(folder)  # fmt: skip
    else:
        config = GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=128, **shared)
        GPT2LMHeadModel(config).save_pretrained(folder)
        reader.tokenizer.chat_template = CHAT
    reader.tokenizer.save_pretrained(folder)


@pytest.fixture(params=["llama", "gpt2 with a chat template"])
def decoder(request: pytest.FixtureRequest, questions: QuestionSet, tmp_path: Path) -> Reader:
    """Load one as a user would."""
    save_decoder(request.param, questions, tmp_path / "decoder")
    return load_reader(str(tmp_path / "decoder"), max_length=40, answer_length=6)


def test_likelihoods_are_the_stock_model_s_one_at_a_time(decoder: Reader) -> None:
    """Neither padding nor the other prompts change log P of any token of an answer."""
    assert isinstance(decoder, DecoderOnly)
    answers = ["deep", "old and quiet", "deep", "old", "quiet and old", "deep"]
    encoded, labels = decoder.encode(inputs()), decoder.labels(answers)
    found = decoder.log_probs(encoded, labels)
    for i, label in enumerate(labels):
        prompt = encoded.states[i][encoded.mask[i].bool()]
        own = label[label != IGNORED]
        assert own[-1] == decoder.end
        with torch.no_grad():
            logits = decoder.model(input_ids=torch.cat([prompt, own])[None]).logits[0]
        plain = torch.log_softmax(logits[len(prompt) - 1 : -1], dim=1)[range(len(own)), own]
        torch.testing.assert_close(found[i, : len(own)], plain, atol=1e-5, rtol=1e-4)
        assert not found[i, len(own) :].any()


def test_the_answer_follows_question_and_context(decoder: Reader) -> None:
    text = decoder.tokenizer.decode(decoder.encode(inputs()[:1]).states[0])
    asked = "question : which river was deep ? context : the river is deep ."
    if decoder.tokenizer.chat_template:
        assert text == f"user answer in a few words . {asked} so the bot says"
    else:
        assert text == f"{asked} answer :"
    alone = [decoder.generate(decoder.encode([prompt]))[0] for prompt in inputs()]
    assert decoder.generate(decoder.encode(inputs())) == alone
    log_p = torch.log_softmax(torch.randn(2, 3), dim=1)
    said = answer(decoder, QUESTIONS, TARGETS, log_p, fusion="marginal")
    assert all(said[i] in alone[3 * i : 3 * i + 3] for i in range(2))


def test_what_is_cut_is_counted_and_the_template_is_not(decoder: Reader) -> None:
    long = reader_input("who " * 50 + "?", "river " * 60)
    whole = decoder.encode([long, reader_input("who?", "river " * 40), reader_input("who?", None)])
    assert int((whole.states[0] == decoder._tokens("river")[0]).sum()) == 40
    assert decoder.truncated == 1
    assert torch.equal(whole.states[0, -2:], whole.states[1, -2:])  # both end as a prompt ends


def test_a_run_trains_it_and_teaches_the_retriever(decoder, start, questions, tmp_path) -> None:
    retriever, _ = start()
    before = {name: value.clone() for name, value in retriever.state_dict().items()}
    done = train_rag(questions, retriever, decoder, tmp_path / "run", **SMALL)
    assert any(not torch.equal(v, before[k]) for k, v in retriever.state_dict().items())
    again = load_reader(str(tmp_path / "run" / "reader"), max_length=40, answer_length=6)
    labels = decoder.labels(["deep"] * 6)
    ours = decoder.log_probs(decoder.encode(inputs()), labels)
    torch.testing.assert_close(again.log_probs(again.encode(inputs()), labels), ours)
    assert 0 <= done.metrics["exact_match"] <= 1
    with pytest.raises(InputError, match="--fusion fid needs a reader with an encoder"):
        train_rag(questions, retriever, decoder, tmp_path / "fid", **SMALL, fusion="fid")


@pytest.mark.parametrize("decoder", ["llama"], indirect=True)
@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only"])
def test_lora_moves_adapters_alone_and_is_saved_as_a_plain_model(
    decoder, reader, start, questions, tmp_path: Path, kind: str
) -> None:
    chosen = decoder if kind == "decoder-only" else reader
    chosen.save(tmp_path / "before")
    adapted = load_reader(str(tmp_path / "before"), max_length=40, answer_length=6, lora=2)
    torch.manual_seed(7)  # the state of the generator does not matter
    again = load_reader(str(tmp_path / "before"), max_length=40, answer_length=6, lora=2)
    assert again.weights == adapted.weights  # or a killed run could not be resumed
    base = {n: p.clone() for n, p in adapted.named_parameters() if "lora_" not in n}
    train_rag(questions, start()[0], adapted, tmp_path / "run", **SMALL)
    after = dict(adapted.named_parameters())
    assert all(torch.equal(after[name], value) for name, value in base.items())
    saved = load_reader(str(tmp_path / "run" / "reader"), max_length=40, answer_length=6)
    labels = chosen.labels(["deep"] * 6)
    ours = adapted.log_probs(adapted.encode(inputs()), labels)
    torch.testing.assert_close(saved.log_probs(saved.encode(inputs()), labels), ours)
    plain = chosen.log_probs(chosen.encode(inputs()), labels)
    assert not torch.allclose(ours, plain, atol=1e-3)
