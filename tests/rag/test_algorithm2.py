"""Algorithm 2: which weights each loss moves, what is encoded, and by which formulas."""

import math
from dataclasses import replace

import pytest
import torch
from sentence_transformers import SentenceTransformer
from tests.materials import small_miner

from unstale.buffer.buffer import TargetBuffer
from unstale.encoders.embed import embed_targets
from unstale.encoders.tokenise import target_tokens
from unstale.miners import Queries
from unstale.rag.algorithm2 import RetrieverReaderLoss
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader, reader_input

ROWS = torch.tensor([3, 40, 77, 101])


def algorithm(
    questions: QuestionSet, retriever: SentenceTransformer, reader: Reader, **options
) -> RetrieverReaderLoss:
    tokens = target_tokens(retriever, questions.dataset, progress=False)
    vectors = embed_targets(retriever, tokens, torch.arange(len(tokens)).numpy())
    buffer = TargetBuffer([vectors])
    made = {"targets": len(tokens), "buffer": buffer, "steps": 10, "corrector_hidden": 8}
    miner = small_miner(options.pop("strategy", "corrected"), **made)
    return RetrieverReaderLoss(retriever, reader, miner, tokens, questions, k=3, **options)


def mine(whole: RetrieverReaderLoss, vector: torch.Tensor, row: int) -> torch.Tensor:
    """Retrieve for one question."""
    asked = Queries(vector[None], torch.tensor([row]), torch.tensor([[-1]]), 0, whole.scale)
    return whole.miner.mine(asked, whole.k)[0]


def gradients(loss: torch.Tensor, module: torch.nn.Module) -> float:
    own = [p for p in module.parameters() if p.requires_grad]
    found = torch.autograd.grad(loss, own, retain_graph=True, allow_unused=True)
    return sum(float(g.abs().sum()) for g in found if g is not None)


@pytest.mark.parametrize("fusion", ["fid", "marginal"])
def test_each_loss_moves_its_own_weights(questions, retriever, reader, fusion: str) -> None:
    whole = algorithm(questions, retriever, reader, fusion=fusion)
    whole.miner.network.last.bias.data.fill_(0.1)  # the first h is right, and has nothing to learn
    losses = whole(ROWS)
    moved = {
        (name, part): gradients(losses[name], module) > 0
        for name in losses
        for part, module in [("f, g", whole.model), ("reader", reader), ("h", whole.miner)]
        if losses[name].requires_grad
    }
    assert moved == {
        ("reader_loss", "f, g"): fusion == "marginal",
        ("reader_loss", "reader"): True,
        ("reader_loss", "h"): False,
        ("retriever_loss", "f, g"): True,
        ("retriever_loss", "reader"): False,
        ("retriever_loss", "h"): False,
        ("corrector_loss", "f, g"): False,
        ("corrector_loss", "reader"): False,
        ("corrector_loss", "h"): True,
    }


@pytest.mark.parametrize("fusion", ["fid", "marginal"])
def test_the_reader_encodes_every_pair_once(questions, retriever, reader, fusion: str) -> None:
    whole = algorithm(questions, retriever, reader, fusion=fusion)
    seen = []
    encoder = reader.model.get_encoder()
    encoder.register_forward_hook(lambda m, args, out: seen.append(len(out.last_hidden_state)))
    whole(ROWS)
    assert seen == [4 * 3]


def told_apart(p_a: torch.Tensor) -> float:
    """KL(P_a || uniform) / log k: how much a question counts."""
    return sum(float(p * (p * len(p_a)).log()) for p in p_a) / math.log(len(p_a))


def test_losses_equal_the_formulas_one_question_at_a_time(questions, retriever, reader) -> None:
    """Per question, per target, with plain T5 and plain softmaxes; neither batch nor padding."""
    whole = algorithm(questions, retriever, reader, fusion="fid")
    losses = whole(ROWS)
    dataset, scale = questions.dataset, whole.scale
    token_nll, tokens, distilled = 0.0, 0, 0.0
    for row in ROWS.tolist():
        with torch.no_grad():
            question = dataset.queries[row]
            x = torch.tensor(retriever.encode_query(question))
            mined = mine(whole, x, row)
            texts = dataset.targets.take(mined.numpy())
            y = torch.tensor(retriever.encode_document(texts))
            p = torch.softmax(scale * y @ x, 0)
            labels = reader.labels(questions.answers[row])
            parts = [reader.encode([reader_input(question, t)]) for t in texts]
            likely = torch.stack([reader.log_probs(e, labels).sum().exp() for e in parts])
            p_a = likely / likely.sum()
            distilled -= told_apart(p_a) * float((p_a * p.log()).sum()) / len(ROWS)
            fused = reader.encode([reader_input(question, t) for t in texts]).fused(3)
            token_nll -= float(reader.log_probs(fused, labels).sum())
            tokens += labels.numel()
    assert losses["reader_loss"].item() == pytest.approx(token_nll / tokens / 2, rel=1e-4)
    assert losses["retriever_loss"].item() == pytest.approx(distilled / 2, rel=1e-4)


def test_the_marginal_equals_the_formula(questions, retriever, reader) -> None:
    whole = algorithm(questions, retriever, reader, fusion="marginal")
    losses = whole(ROWS)
    nll, distilled = 0.0, 0.0
    for row in ROWS.tolist():
        with torch.no_grad():
            question = questions.dataset.queries[row]
            x = torch.tensor(retriever.encode_query(question))
            mined = mine(whole, x, row)
            texts = questions.dataset.targets.take(mined.numpy())
            p = torch.softmax(whole.scale * torch.tensor(retriever.encode_document(texts)) @ x, 0)
            labels = reader.labels(questions.answers[row])
            each = [reader.encode([reader_input(question, t)]) for t in texts]
            logs = torch.stack([reader.log_probs(e, labels).sum() for e in each])
            nll -= float(torch.log((logs.exp() * p).sum())) / len(ROWS)
            p_a = torch.softmax(logs, 0)
            distilled -= told_apart(p_a) * float((p_a * p.log()).sum()) / len(ROWS)
    assert losses["reader_loss"].item() == pytest.approx(nll / 2, rel=1e-4)
    assert losses["retriever_loss"].item() == pytest.approx(distilled / 2, rel=1e-4)


def test_one_of_several_answers_is_drawn_by_seed_and_step(questions, retriever, reader) -> None:
    answers = [["one", " ", "two", "three"] for _ in questions.answers]
    several = QuestionSet(replace(questions.dataset, answers=answers), questions.splits)
    rows = torch.arange(100)
    first = several.choose_answers(rows, 0, 0)
    assert set(first) == {"one", "two", "three"}
    assert several.choose_answers(rows.flip(0), 0, 0) == first[::-1]
    assert several.choose_answers(rows, 1, 0) != first
    asked = []
    whole = algorithm(several, retriever, reader, seed=3)
    plain = several.choose_answers
    object.__setattr__(  # watch, change nothing
        several, "choose_answers", lambda *given: asked.append(given[1:]) or plain(*given)
    )
    whole.record.step = 1
    whole(ROWS)
    assert asked == [(3, 1)]
    assert several.choose_answers(rows, 0, 1) != first


def test_order_of_the_batch_changes_nothing(questions, retriever, reader) -> None:
    whole = algorithm(questions, retriever, reader)
    first = whole(ROWS)
    turned = whole(ROWS.flip(0))
    for name, value in first.items():
        torch.testing.assert_close(value, turned[name], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("fusion", ["fid", "marginal"])
def test_frozen_trains_the_reader_only_and_encodes_no_target(
    questions, retriever, reader, fusion: str
) -> None:
    whole = algorithm(questions, retriever, reader, strategy="stale", frozen=True, fusion=fusion)
    losses = whole(ROWS)
    assert losses.keys() == {"reader_loss"}
    losses["reader_loss"].backward()
    assert all(p.grad is None for p in retriever.parameters())
    assert whole.record.counters.targets_trained == 0
    assert not whole.train().model.training
    assert any(p.grad.abs().sum() > 0 for p in reader.parameters())


def test_without_retrieval_the_reader_sees_the_question_alone(questions, retriever, reader) -> None:
    whole = algorithm(questions, retriever, reader)
    whole.k = 0
    alone = whole(ROWS)["reader_loss"]
    texts = [reader_input(t, None).text for t in questions.dataset.queries.take(ROWS.numpy())]
    batch = reader.tokenizer(texts, padding=True, return_tensors="pt")
    labels = reader.labels([questions.answers[r][0] for r in ROWS.tolist()])
    torch.testing.assert_close(alone, reader.model(**batch, labels=labels).loss)
    assert whole.record.counters.targets_trained == 0


def test_what_the_start_ranked_first_stays_among_the_targets(questions, retriever, reader) -> None:
    """The corrector's own first, then the best of the start's list that are not among them."""
    start = torch.arange(120)[None, :].expand(120, 120)[:, :3].contiguous()
    whole = algorithm(questions, retriever, reader, start=start, start_targets=2)
    with torch.no_grad():
        vectors = torch.tensor(retriever.encode_query(questions.dataset.queries.take(ROWS.numpy())))
    asked = Queries(vectors, ROWS, torch.full((4, 1), -1), 0, whole.scale)
    mined, rows, place = whole._retrieve(asked)
    plain = whole.miner.mine(asked, 3)
    for own, alone in zip(mined.tolist(), plain.tolist(), strict=True):
        assert own[0] == alone[0]
        assert own[1:] == [row for row in (0, 1, 2) if row != own[0]][:2]
    assert torch.equal(rows[place], mined)


@pytest.mark.parametrize("fusion", ["fid", "marginal"])
def test_mini_batches_have_the_gradients_of_the_whole_batch(
    questions, retriever, reader, fusion: str
) -> None:
    """Of retriever, reader and corrector, while the reader holds five of the twelve pairs."""
    found, seen = [], []
    count = lambda module, args, out: seen.append(len(out[0]))  # noqa: E731
    reader.model.get_encoder().register_forward_hook(count)
    reader.model.get_decoder().register_forward_hook(count)
    for size in (0, 5):
        whole = algorithm(questions, retriever, reader, fusion=fusion, at_once=size)
        whole.miner.network.last.bias.data.fill_(0.1)
        whole.zero_grad()
        losses = whole(ROWS)
        sum(losses.values()).backward()
        grads = {name: p.grad for name, p in whole.named_parameters() if p.grad is not None}
        found.append((losses, {name: grad.clone() for name, grad in grads.items()}))
        assert max(seen) == (12, 5)[size > 0]
        seen.clear()
    (losses, grads), (parts, own) = found
    assert {name.partition(".")[0] for name in grads} == {"model", "reader", "miner"}
    assert grads.keys() == own.keys()
    for name, loss in losses.items():
        torch.testing.assert_close(parts[name], loss, atol=1e-6, rtol=1e-5)
    for name, grad in grads.items():
        torch.testing.assert_close(own[name], grad, atol=1e-6, rtol=1e-4)
