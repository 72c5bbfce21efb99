"""The loss is the paper's: its softmax, its masks, and who is moved by what."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.data.dataset import Positives, Qrels, RetrievalDataset, Texts
from unstale.encoders.embed import embed, embed_targets, preprocess
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.miners import (
    Corrected,
    FalseNegatives,
    Filters,
    Mined,
    NegativeCounts,
    Negatives,
    Stale,
)
from unstale.miners.in_batch import InBatch
from unstale.miners.uniform import Uniform
from unstale.training.algorithm1 import FreshNegativesLoss
from unstale.training.settings import TrainSettings


def setup(
    model: SentenceTransformer,
    dataset: RetrievalDataset,
    strategy: str,
    *,
    hard_negatives: int = 3,
    filters: FalseNegatives | None = None,
    gumbel_seed: int | None = None,
    **options,
) -> FreshNegativesLoss:
    tokens = target_tokens(model, dataset, progress=False)
    buffer = TargetBuffer([embed_targets(model, tokens, np.arange(len(tokens)))])
    torch.manual_seed(0)
    miner = {
        "in-batch": InBatch,
        "stale": lambda: Stale(buffer, gumbel_seed),
        "corrected": lambda: Corrected(
            buffer, Corrector(buffer.dim, (24,)), gumbel_seed=gumbel_seed
        ),
        "mixed": lambda: Stale(buffer, gumbel_seed),
    }[strategy]()
    counts = NegativeCounts(hard_negatives, 2 if strategy == "mixed" else 0)
    uniform = Uniform(len(buffer), 0) if counts.uniform else None
    negatives = Negatives(miner, counts, filters=filters, uniform=uniform)
    return FreshNegativesLoss(model, negatives, tokens, Positives(dataset, ["train"]), **options)


def watch_mining(loss: FreshNegativesLoss) -> list[Mined]:
    """Return a list that will hold what is mined; nothing is changed."""
    mined: list[Mined] = []
    plain = loss.negatives.mine
    loss.negatives.mine = lambda *a: mined.append(plain(*a)) or mined[-1]
    return mined


def batch(model: SentenceTransformer, dataset: RetrievalDataset, size: int = 4):
    pairs = dataset.split("train").pairs[:size]
    features = preprocess(model, dataset.queries.take(pairs[:, 0]), "query")
    return [features], torch.from_numpy(pairs)


def test_each_loss_changes_only_its_own_parameters(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    """The corrector model loss only changes the corrector model parameters.

    And the dual-encoder loss the dual-encoder ones: the paper's appendix.
    """
    loss = setup(static_model, dataset, "corrected")
    encoder, corrector = list(static_model.parameters()), list(loss.miner.parameters())
    # The fresh embeddings equal the stale ones at the start, so let the encoder have moved.
    with torch.no_grad():
        encoder[0].add_(torch.randn_like(encoder[0]) * 0.3)
    parts = loss(*batch(static_model, dataset))

    def grads(name: str, of: list[torch.nn.Parameter]) -> list[torch.Tensor | None]:
        value = parts[name]
        return list(torch.autograd.grad(value, of, retain_graph=True, allow_unused=True))

    assert all(g is None for g in grads("corrector_loss", encoder))
    assert all(g is None for g in grads("task_loss", corrector))
    assert any(g is not None and g.abs().max() > 0 for g in grads("corrector_loss", corrector))
    assert any(g is not None and g.abs().max() > 0 for g in grads("task_loss", encoder))


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("strategy", ["in-batch", "stale", "corrected", "mixed"])
def test_task_loss_is_the_truncated_softmax_as_written(
    static_model: SentenceTransformer, dataset: RetrievalDataset, strategy: str, share: bool
) -> None:
    loss = setup(static_model, dataset, strategy, share_candidates=share)
    features, labels = batch(static_model, dataset)
    positives = Positives(dataset, ["train"])
    seen = watch_mining(loss)
    found = loss(features, labels)["task_loss"]
    mined = torch.cat([seen[0].hard, seen[0].uniform], dim=1)

    q = embed(static_model, dict(features[0]), "query", unit=True)
    expected = []
    for i, (query, label) in enumerate(labels.tolist()):
        own = {label, *mined[i].tolist()}
        union = {label for _, label in labels.tolist()} | set(mined.flatten().tolist())
        known = set(positives(np.array([query]))[0].tolist()) - {label}
        candidates = sorted((union if share else own) - known)
        texts = dataset.targets.take(candidates)
        g = embed(static_model, preprocess(static_model, texts, "document"), "document", unit=True)
        p = torch.softmax(20.0 * g @ q[i], dim=0)
        expected.append(-torch.log(p[candidates.index(label)]))
    torch.testing.assert_close(found, torch.stack(expected).mean())


def test_positives_and_their_twins_are_never_negatives(static_model: SentenceTransformer) -> None:
    # Target 2 repeats the text of target 0; query 0 has positives 0 and 1. What is left is 3.
    texts = ["red castle", "red fort", "red castle", "blue river"]
    dataset = RetrievalDataset(
        name="twins",
        target_ids=Texts.of(list("abcd")),
        targets=Texts.of(texts),
        query_ids=Texts.of(["q"]),
        queries=Texts.of(["a red castle"]),
        qrels={"train": Qrels(np.array([0, 0]), np.array([0, 1]), np.array([1, 1]))},
    )
    loss = setup(static_model, dataset, "stale", hard_negatives=1)
    features = preprocess(static_model, ["a red castle"], "query")
    found = loss([features], torch.tensor([[0, 0]]))["task_loss"]
    q = embed(static_model, preprocess(static_model, ["a red castle"], "query"), "query", unit=True)
    chosen = preprocess(static_model, ["red castle", "blue river"], "document")
    g = embed(static_model, chosen, "document", unit=True)
    torch.testing.assert_close(found, -torch.log_softmax(20.0 * q @ g.T, dim=1)[0, 0])
    with pytest.raises(InputError, match="too few are not its positives"):
        setup(static_model, dataset, "stale", hard_negatives=2)(
            [preprocess(static_model, ["a red castle"], "query")], torch.tensor([[0, 0]])
        )


def test_known_positives_still_teach_the_corrector(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    """They are masked in the task loss only."""
    loss = setup(static_model, dataset, "corrected", hard_negatives=0)
    features, labels = batch(static_model, dataset, size=2)
    seen: list[int] = []
    plain = loss.miner.loss
    loss.miner.loss = lambda q, f, rows, w: seen.extend(rows.tolist()) or plain(q, f, rows, w)
    loss(features, labels)
    assert seen == sorted(labels[:, 1].tolist())


def test_counts_the_targets_it_trains_on(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    loss = setup(static_model, dataset, "in-batch")
    loss(*batch(static_model, dataset, size=4))
    loss(*batch(static_model, dataset, size=3))
    assert loss.record.counters.targets_trained == 4 + 3  # distinct positives


def test_bad_settings_are_refused(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    with pytest.raises(InputError, match=r"scale must be above 0, got 0\.0"):
        setup(static_model, dataset, "stale", scale=0.0)
    for name, bad in {"hard_negatives": -1, "corrector_weight": -1.0}.items():
        flag = f"--{name.replace('_', '-')}"
        with pytest.raises(InputError, match=f"{flag} must be at least 0.*, got {bad}"):
            TrainSettings(strategy="stale", **{name: bad}).check(dataset, static_model)


def test_what_a_filter_drops_is_no_negative_by_way_of_another_query(
    static_model: SentenceTransformer,
) -> None:
    # Targets 0 and 1 are the labels, 2 is nearest to both queries. Filters drop it for query 0
    # alone, whose score for it is above the bar; query 1 mines it.
    texts = ["red castle", "old red castle", "a red castle here", "blue river"]
    asked = ["a red castle here", "old castle"]
    dataset = RetrievalDataset(
        name="shared",
        target_ids=Texts.of(list("abcd")),
        targets=Texts.of(texts),
        query_ids=Texts.of(["q", "r"]),
        queries=Texts.of(asked),
        qrels={"train": Qrels(np.array([0, 1]), np.array([0, 1]), np.array([1, 1]))},
    )
    filters = FalseNegatives(Filters(max_score=0.95), reach=4)
    loss = setup(static_model, dataset, "stale", hard_negatives=2, filters=filters)
    found = loss([preprocess(static_model, asked, "query")], torch.tensor([[0, 0], [1, 1]]))
    q = embed(static_model, preprocess(static_model, asked, "query"), "query", unit=True)
    g = embed(static_model, preprocess(static_model, texts, "document"), "document", unit=True)
    scores = q @ g.T
    assert scores[0, 2] > 0.95 > scores[1, 2]
    # Query 0: everything but target 2. Query 1: mined 0 and 2, shares 3.
    expected = [
        -torch.log_softmax(20.0 * scores[0, [0, 1, 3]], dim=0)[0],
        -torch.log_softmax(20.0 * scores[1, [1, 0, 2, 3]], dim=0)[0],
    ]
    torch.testing.assert_close(found["task_loss"], torch.stack(expected).mean())
    counters = loss.record.counters
    assert counters.candidates_dropped == {"max_score": 1}
    assert (counters.candidates_considered, counters.negatives_missing) == (6, 0)


def test_a_query_left_with_no_negative_of_its_own_still_trains(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    filters = FalseNegatives(Filters(max_score=-2.0), reach=120)
    loss = setup(static_model, dataset, "stale", share_candidates=False, filters=filters)
    found = loss(*batch(static_model, dataset))["task_loss"]
    assert found == 0  # each softmax holds the label alone
    assert loss.record.counters.negatives_missing == 4 * 3
