"""What users expect of a loss: GradCache, Matryoshka, a learnt scale, given negatives, LoRA."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from peft import LoraConfig
from sentence_transformers import SentenceTransformer
from tests.training.test_algorithm1 import batch, setup, watch_mining

from unstale.data.dataset import ByQuery, Qrels, RetrievalDataset, Texts
from unstale.encoders.embed import embed, preprocess
from unstale.encoders.load import silence_dropout
from unstale.errors import InputError
from unstale.miners import Queries
from unstale.miners.given import draw_given
from unstale.search.draws import gumbel
from unstale.training.job import train


def gradients(loss, features, labels) -> tuple[float, dict[str, torch.Tensor]]:
    loss.zero_grad()
    total = sum(loss([dict(features[0])], labels).values())
    total.backward()
    return float(total.detach()), {
        k: p.grad.clone() for k, p in loss.named_parameters() if p.grad is not None
    }


@pytest.mark.parametrize("share", [True, False])
def test_gradcache_has_the_gradients_of_the_plain_loss(
    bert_model: SentenceTransformer, dataset: RetrievalDataset, share: bool
) -> None:
    """Both losses' gradients, to 1e-5 of the largest: only the padding of a mini-batch differs."""
    silence_dropout(bert_model)
    loss = setup(bert_model, dataset, "corrected", share_candidates=share)
    with torch.no_grad():  # away from the buffer, so that the corrector has something to learn
        for weight in bert_model.parameters():
            weight.add_(torch.randn_like(weight) * 0.02)
    examples = batch(bert_model, dataset, size=7)
    calls: list[int] = []
    bert_model[0].register_forward_hook(lambda m, a, out: calls.append(len(out["input_ids"])))
    plain, expected = gradients(loss, *examples)
    assert len(calls) == 2
    calls.clear()
    loss.encoding = loss.encoding._replace(mini_batch_size=3)
    cached, found = gradients(loss, *examples)
    assert max(calls) == 3
    assert sum(calls) == 2 * (7 + loss.record.counters.targets_trained // 2)  # each text twice
    assert cached == pytest.approx(plain, rel=1e-5)
    assert found.keys() == expected.keys()
    assert any(k.startswith("miner.") for k in found)
    for name, grad in expected.items():
        torch.testing.assert_close(
            found[name], grad, rtol=1e-4, atol=1e-5 * float(grad.abs().max()) + 1e-8
        )


def test_gradcache_repeats_the_dropout_of_its_first_pass(
    bert_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    """With dropout the vectors that get the gradients are those that the loss saw."""
    loss = setup(bert_model, dataset, "in-batch", mini_batch_size=2)
    bert_model.train()
    seen: list[torch.Tensor] = []
    bert_model.register_forward_hook(
        lambda m, a, out: seen.append(out["sentence_embedding"].detach())
    )
    gradients(loss, *batch(bert_model, dataset, size=4))
    first, second = seen[:4], seen[4:]
    assert len(second) == 4
    for again in second:
        assert any(torch.equal(again, vectors) for vectors in first)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_matryoshka_is_the_mean_over_its_dimensions(
    static_model: SentenceTransformer, dataset: RetrievalDataset, similarity: str
) -> None:
    model = SentenceTransformer(
        modules=[static_model[0]], similarity_fn_name=similarity, device="cpu"
    )
    loss = setup(model, dataset, "in-batch", matryoshka_dims=(8, 4))
    features, labels = batch(model, dataset)
    asked: list[torch.Tensor] = []
    plain = loss.miner.mine
    loss.miner.mine = lambda queries, k: asked.append(queries.vectors) or plain(queries, k)
    found = loss([dict(features[0])], labels)["task_loss"]
    f = embed(model, dict(features[0]), "query", unit=False)
    whole = embed(model, dict(features[0]), "query", unit=similarity == "cosine")
    torch.testing.assert_close(asked[0], whole)  # what is mined by
    targets = preprocess(model, dataset.targets.take(labels[:, 1].tolist()), "document")
    g = embed(model, targets, "document", unit=False)
    expected = []
    for dim in (16, 8, 4):
        scores = f[:, None, :dim] * g[None, :, :dim]
        if similarity == "cosine":
            scores = scores / (f[:, :dim].norm(dim=1)[:, None] * g[:, :dim].norm(dim=1))[..., None]
        scores = scores.sum(dim=2)
        expected.append(-torch.log_softmax(20.0 * scores, dim=1).diagonal().mean())
    torch.testing.assert_close(found, torch.stack(expected).mean())
    with pytest.raises(InputError, match="--matryoshka-dims 17: the model has 16 dimensions"):
        setup(model, dataset, "in-batch", matryoshka_dims=(17,))


@pytest.mark.parametrize("strategy", ["stale", "corrected"])
def test_gumbel_noise_follows_the_scale(
    static_model: SentenceTransformer, dataset: RetrievalDataset, strategy: str
) -> None:
    loss = setup(static_model, dataset, strategy, gumbel_seed=3)
    features, labels = batch(static_model, dataset)
    mined = watch_mining(loss)
    asked: list[Queries] = []
    plain = loss.miner.mine
    loss.miner.mine = lambda queries, k: asked.append(queries) or plain(queries, k)
    for scale in (20.0, 7.0):
        loss.scale = scale
        loss([dict(features[0])], labels)
        queries = asked[-1]
        every = torch.arange(120)
        scores = queries.vectors @ loss.miner.buffer[every].T  # a corrector begins as none
        scores = scores + gumbel(3, scale, queries.step, queries.rows, every)
        known = queries.positives
        scores.scatter_(1, known.clamp(min=0), -torch.inf)
        assert (known >= 0).all()
        assert torch.equal(mined[-1].hard, scores.topk(3).indices)
    assert not torch.equal(mined[0].hard, mined[1].hard)


def test_given_negatives_stand_beside_mined_ones(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    """Drawn anew each step, none twice, -1 where a query has too few; never a positive's twin."""
    # Query 0 was given 4, 5, 6; query 1 was given 7, and 8, which has the text of its positive.
    pairs = np.array([[0, 4], [0, 5], [0, 6], [1, 7], [1, 8]])
    given = ByQuery(pairs, queries=3)
    drawn = set()
    for step in range(20):
        queries = Queries(torch.zeros(3, 2), torch.arange(3), torch.tensor([[0], [8], [2]]), step)
        rows = draw_given(given, queries, 2, seed=0)
        assert len(set(rows[0].tolist())) == 2
        assert sorted(rows[1].tolist()) == [-1, 7]
        assert rows[2].tolist() == [-1, -1]
        drawn.add(tuple(sorted(rows[0].tolist())))
    assert drawn == {(4, 5), (4, 6), (5, 6)}

    loss = setup(static_model, dataset, "in-batch")
    labels = dataset.split("train").pairs[:2]
    other = int(dataset.split("train").pairs[5, 1])
    negatives = ByQuery(np.array([[labels[0, 0], other]]), len(dataset.queries))
    loss.negatives.given, loss.negatives.given_count = negatives, 1
    features, _ = batch(static_model, dataset, size=2)
    found = loss(features, torch.from_numpy(labels))["task_loss"]
    q = embed(
        static_model,
        preprocess(static_model, dataset.queries.take(labels[:, 0]), "query"),
        "query",
        unit=True,
    )
    texts = dataset.targets.take([*labels[:, 1].tolist(), other])
    g = embed(static_model, preprocess(static_model, texts, "document"), "document", unit=True)
    expected = torch.nn.functional.cross_entropy(20.0 * q @ g.T, torch.arange(2))
    torch.testing.assert_close(found, expected)


def test_lora_has_the_gradients_of_the_weights_it_adapts(
    bert_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    """With W' = W + s B A, dL/dB = s dL/dW' A^T and dL/dA = s B^T dL/dW'; nothing else moves."""
    silence_dropout(bert_model)
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["query"], lora_dropout=0.0)
    bert_model.add_adapter(config)
    layer = bert_model[0].auto_model.encoder.layer[0].attention.self.query
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    with torch.no_grad():
        b.normal_(std=0.1)  # it begins at zero, where A has no gradient
    loss = setup(bert_model, dataset, "corrected")
    examples = batch(bert_model, dataset)
    _, found = gradients(loss, *examples)
    moved = {name for name in found if not name.startswith("miner.")}
    assert moved
    assert all("lora_" in name for name in moved)

    with torch.no_grad():
        layer.base_layer.weight.add_(2.0 * b @ a)
        kept = b.clone()
        b.zero_()
    layer.base_layer.weight.requires_grad = True
    _, merged = gradients(loss, *examples)
    (whole,) = (
        g for name, g in merged.items() if name.endswith("0.attention.self.query.base_layer.weight")
    )
    (by_a,) = (g for name, g in found.items() if "layer.0." in name and "lora_A" in name)
    (by_b,) = (g for name, g in found.items() if "layer.0." in name and "lora_B" in name)
    torch.testing.assert_close(by_b, 2.0 * whole @ a.T, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(by_a, 2.0 * kept.T @ whole, rtol=1e-3, atol=1e-6)


def test_several_positives_of_a_query_are_no_negatives_of_it(
    static_model: SentenceTransformer,
) -> None:
    """Each is a label in its turn, and absent from the other's softmax."""
    dataset = RetrievalDataset(
        name="several", target_ids=Texts.of(list("abc")),
        targets=Texts.of(["red castle", "old castle", "blue river"]),
        query_ids=Texts.of(["q", "r"]), queries=Texts.of(["castle", "river"]),
        qrels={"train": Qrels(np.array([0, 0, 1]), np.array([0, 1, 2]), np.array([1, 1, 1]))},
    )  # fmt: skip
    loss = setup(static_model, dataset, "in-batch")
    texts = ["castle", "castle", "river"]
    found = loss([preprocess(static_model, texts, "query")], torch.tensor([[0, 0], [0, 1], [1, 2]]))
    q = embed(static_model, preprocess(static_model, texts, "query"), "query", unit=True)
    g = embed(
        static_model,
        preprocess(static_model, list(dataset.targets), "document"),
        "document",
        unit=True,
    )
    scores = 20.0 * q @ g.T
    scores[0, 1] = scores[1, 0] = -torch.inf
    expected = torch.nn.functional.cross_entropy(scores, torch.arange(3))
    torch.testing.assert_close(found["task_loss"], expected)


def test_a_run_takes_them_all_and_its_card_tells(
    static_model: SentenceTransformer, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    qrels = dataset.split("train")
    other = np.roll(qrels.target, 1)  # of each query, another's positive is a given negative
    judged = Qrels(
        np.concatenate([qrels.query, qrels.query]),
        np.concatenate([qrels.target, other]),
        np.concatenate([qrels.grade, np.zeros_like(qrels.grade)]),
    )
    given = replace(dataset, qrels={**dataset.qrels, "train": judged})
    options = {"strategy": "corrected", "steps": 2, "batch_size": 4, "hard_negatives": 1}
    options |= {"corrector_hidden": (8,)}
    options |= {"probe_queries": 4, "probe_targets": 20, "progress": False, "save_steps": 1}
    result = train(
        given, static_model, tmp_path, mini_batch_size=3, matryoshka_dims=[8],
        given_negatives=1, **options,
    )  # fmt: skip
    card = (tmp_path / "model" / "README.md").read_text()
    assert "| recall@10 " in card
    assert f"{result.metrics['ndcg@10']:.4f}".rstrip("0") in card
    assert '"strategy": "corrected"' in card
    assert "Freshness of the negatives at step 2" in card
    meta = yaml.safe_load(card.split("---")[1])
    (index,) = meta["model-index"]
    assert {r["task"]["type"] for r in index["results"]} == {"information-retrieval"}
    assert set(meta["metrics"]) == set(result.metrics)  # and nothing of the freshness
    pairs = {
        (given.queries[query], given.targets[target])
        for query, target in given.split("train").pairs.tolist()
    }
    assert len(meta["widget"]) == 5
    for example in meta["widget"]:
        query, (right, *others) = example["source_sentence"], example["sentences"]
        assert (query, right) in pairs
        assert len({right, *others}) == 3
        assert all((query, other) not in pairs for other in others)
    with pytest.raises(InputError, match="has no negatives of its own to take 1 from"):
        train(dataset, static_model, tmp_path / "none", given_negatives=1, **options)
