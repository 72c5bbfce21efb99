"""Free negatives: who learns what from targets that are not encoded."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tests.training.test_algorithm1 import batch, setup, watch_mining
from torch import Tensor
from torch.nn import functional

from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.encoders.embed import embed, preprocess
from unstale.encoders.load import load_encoder, tower_modules
from unstale.errors import InputError
from unstale.miners import Queries
from unstale.training.candidates import choose_candidates
from unstale.training.record import Counters
from unstale.training.settings import TrainSettings


@pytest.fixture
def model(static_model: SentenceTransformer, tmp_path: Path) -> SentenceTransformer:
    """Own weights for queries and targets, so that gradients tell who was taught."""
    static_model.save_pretrained(str(tmp_path / "start"))
    return load_encoder(str(tmp_path / "start"), towers="separate")


def gradient(value: Tensor, model: SentenceTransformer, task: str) -> Tensor:
    (weights,) = tower_modules(model, task).parameters()
    (found,) = torch.autograd.grad(value, [weights], retain_graph=True)
    return found


def test_free_negatives_teach_queries_and_only_queries(
    model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    loss = setup(model, dataset, "corrected", hard_negatives=0, free_negatives=3)
    with torch.no_grad():  # a corrector that is no identity any more
        for weights in loss.miner.parameters():
            weights.add_(0.05 * torch.randn_like(weights))
    features, labels = batch(model, dataset)
    mined = watch_mining(loss)
    found = loss([dict(features[0])], labels)["task_loss"]

    targets = dataset.targets.take(labels[:, 1].tolist())
    f = embed(model, dict(features[0]), "query", unit=True)
    g = embed(model, preprocess(model, targets, "document"), "document", unit=True)
    extra = sorted(set(mined[0].free.flatten().tolist()) - set(labels[:, 1].tolist()))
    assert extra, "nothing was free"
    view = lambda rows: loss.miner.network(loss.miner.buffer[rows]).detach()  # noqa: E731
    distinct = labels[:, 1].unique(return_inverse=True)
    missed = view(distinct[0]) - torch.zeros(len(distinct[0]), 16).index_copy(0, distinct[1], g)
    free = view(torch.tensor(extra)) - missed.mean(dim=0).detach()
    noise = 20.0 * f.detach() @ (missed - missed.mean(dim=0)).detach().T
    noise[torch.arange(len(f)), distinct[1]] = 0.0
    overrated = noise.square().mean() / 2
    assert overrated > 0.01
    # By hand, one query at a time; known positives are nobody's negatives.
    expected = []
    for i, (query, label) in enumerate(labels.tolist()):
        known = set(loss.positives(labels[i : i + 1, 0].numpy())[0].tolist()) - {label}
        rows = [*labels[:, 1].tolist(), *extra]
        keep = [n for n, row in enumerate(rows) if row not in known and rows.index(row) == n]
        every = torch.cat([g.detach(), free])[keep]
        less = torch.tensor([0.0] * len(labels) + [overrated.item()] * len(extra))[keep]
        place = torch.tensor(keep.index(rows.index(label)))
        expected.append(functional.cross_entropy(20.0 * every @ f[i] - less, place))
        assert query == labels[i, 0]
    torch.testing.assert_close(found, torch.stack(expected).mean())
    torch.testing.assert_close(
        gradient(found, model, "query"), gradient(torch.stack(expected).mean(), model, "query")
    )

    in_batch = setup(model, dataset, "in-batch", hard_negatives=0)([dict(features[0])], labels)
    torch.testing.assert_close(
        gradient(found, model, "document"), gradient(in_batch["task_loss"], model, "document")
    )
    assert not torch.allclose(
        gradient(found, model, "query"), gradient(in_batch["task_loss"], model, "query")
    )


def test_what_is_common_to_all_cached_targets_teaches_nothing(
    model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    features, labels = batch(model, dataset)
    found = []
    for shift in (0.0, 3.0):
        torch.manual_seed(0)
        loss = setup(model, dataset, "corrected", hard_negatives=0, free_negatives=3)
        with torch.no_grad():  # as if the corrector were off by the same vector everywhere
            loss.miner.network.layers[-1].bias.add_(shift * torch.ones(16))
        value = loss([dict(features[0])], labels)["task_loss"]
        found.append((value, gradient(value, model, "query")))
    torch.testing.assert_close(found[1], found[0], atol=1e-4, rtol=1e-4)


def test_a_positive_is_no_free_negative_by_way_of_another_query(
    model: SentenceTransformer,
) -> None:
    """Query 0 has two positives; query 1 mines the one that is not its label."""
    dataset = RetrievalDataset(
        name="free",
        target_ids=Texts.of(list("abcd")),
        targets=Texts.of(["red castle", "old castle", "blue river", "green hill"]),
        query_ids=Texts.of(["q", "r"]),
        queries=Texts.of(["castle", "river"]),
        qrels={"train": Qrels(np.array([0, 0, 1]), np.array([0, 1, 2]), np.array([1, 1, 1]))},
    )
    loss = setup(model, dataset, "stale", hard_negatives=0, free_negatives=1)
    loss.miner.mine = lambda queries, k: torch.tensor([[3], [1]])
    asked = preprocess(model, ["castle", "river"], "query")
    found = loss([dict(asked)], torch.tensor([[0, 0], [1, 2]]))["task_loss"]
    f = embed(model, asked, "query", unit=True)
    g = embed(model, preprocess(model, list(dataset.targets), "document"), "document", unit=True)
    scores = 20.0 * f @ g.T
    scores[0, 1] = -torch.inf
    torch.testing.assert_close(found, functional.cross_entropy(scores, torch.tensor([0, 2])))


def test_split_and_unsplit_teach_the_same_when_nothing_is_free(
    model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    features, labels = batch(model, dataset)
    whole = setup(model, dataset, "stale", hard_negatives=0)
    plain = whole([dict(features[0])], labels)["task_loss"]
    split = setup(model, dataset, "stale", hard_negatives=0, free_negatives=3)
    # What is found is encoded already: the labels of the batch.
    split.miner.mine = lambda queries, k: labels[:, 1:].expand(-1, k)
    found = split([dict(features[0])], labels)["task_loss"]
    torch.testing.assert_close(found, plain)
    for task in ("query", "document"):
        torch.testing.assert_close(gradient(found, model, task), gradient(plain, model, task))


def test_the_first_are_encoded_and_the_next_are_free(
    model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    loss = setup(model, dataset, "mixed", hard_negatives=1, free_negatives=2)
    loss.miner.mine = lambda queries, k: torch.tensor([[10, 20, 30][:k]])
    loss.negatives.uniform.mine = lambda queries, k: torch.tensor([[40, 50][:k]])
    none = torch.full((1, 1), -1)
    mined = loss.negatives.mine(Queries(torch.zeros(1, 16), torch.zeros(1, dtype=int), none, 0))
    assert mined.encoded.tolist() == [[10]]  # the hardest
    assert mined.free.tolist() == [[20, 30]]
    assert mined.uniform.tolist() == [[40, 50]]  # encoded, too
    label, seen = torch.tensor([7]), Counters()
    asked = Queries(torch.zeros(1, 16), torch.zeros(1, dtype=int), none, 0)
    chosen = choose_candidates(loss.negatives, asked, label, seen, shared=True)
    assert (chosen.rows.tolist(), chosen.free.tolist()) == ([7, 10, 40, 50], [20, 30])


def test_an_untrusted_corrector_is_not_taught_by_either(
    model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    miner = setup(model, dataset, "corrected").miner
    with torch.no_grad():
        for weights in miner.parameters():
            weights.add_(torch.randn_like(weights))
    rows = torch.arange(5)
    assert torch.equal(miner.view(rows).searched, miner.view(rows).corrected)
    miner.trusted.fill_(False)
    assert torch.equal(miner.view(rows).searched, miner.buffer[rows])


def test_numbers_of_negatives(static_model: SentenceTransformer, dataset: RetrievalDataset) -> None:
    def counts(strategy: str, hard: int | None, uniform: int | None, free: int | None):
        settings = TrainSettings(
            strategy=strategy, hard_negatives=hard, uniform_negatives=uniform, free_negatives=free
        )
        return settings.check(dataset, static_model).counts

    assert counts("corrected", None, None, None) == (4, 1, 0)  # the paper's way
    assert counts("corrected-free", None, None, None) == (0, 0, 4)
    assert counts("corrected-free", 2, None, 8) == (2, 0, 8)
    with pytest.raises(InputError, match="in-batch cannot have free negatives"):
        counts("in-batch", None, None, 4)
    with pytest.raises(InputError, match="got -1"):
        counts("stale", -1, None, None)
