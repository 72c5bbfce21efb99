"""The losses against the formulas of the paper, written out."""

import math

import torch

from unstale.rag.losses import informative, marginal_nll, perplexity_distillation


def test_distillation_by_hand() -> None:
    """P_a = (3/4, 1/4), P = (1/2, 1/2): the cross-entropy is log 2."""
    log_p = torch.log(torch.tensor([[0.5, 0.5]]))
    scores = torch.log(torch.tensor([[0.3, 0.1]]))
    assert math.isclose(float(perplexity_distillation(log_p, scores)), math.log(2), abs_tol=1e-6)


def test_distillation_moves_the_retriever_only_and_by_the_written_formula() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 5, requires_grad=True)
    scores = torch.randn(3, 5, requires_grad=True)
    perplexity_distillation(torch.log_softmax(logits, 1), scores).backward()
    assert scores.grad is None  # P_a is a label
    # d/dlogits of -sum P_a log softmax(logits), the mean over 3 questions, is (P - P_a) / 3.
    expected = (torch.softmax(logits, 1) - torch.softmax(scores, 1)).detach() / 3
    torch.testing.assert_close(logits.grad, expected)


def test_a_reader_that_tells_nothing_apart_teaches_nothing() -> None:
    logits = torch.tensor([[3.0, 1.0, 0.0], [3.0, 1.0, 0.0]], requires_grad=True)
    scores = torch.tensor([[-7.0, -7.0, -7.0], [-9.0, -1.0, -9.0]])
    weights = informative(scores)
    perplexity_distillation(torch.log_softmax(logits, 1), scores, weights).backward()
    assert float(logits.grad[0].abs().max()) < 1e-6  # without weights it would be flattened
    assert int(logits.grad[1].argmin()) == 1  # what the reader names is to score higher
    assert 0.9 < float(weights[1]) < 1


def test_a_question_with_missing_targets_is_told_apart_among_the_rest() -> None:
    """Two of four left, equally likely, say nothing; as two of four they would weigh a half."""
    scores = torch.tensor([[-7.0, -1e4, -7.0, -1e4], [-3.0, -1.0, -1e4, -1e4]])
    weights = informative(scores, scores < -999)
    torch.testing.assert_close(weights[0], torch.tensor(0.0))
    torch.testing.assert_close(weights[1:], informative(scores[1:, :2]))
    assert float(informative(scores)[0]) > 0.49


def test_marginal_equals_brute_force_with_gradients() -> None:
    torch.manual_seed(0)
    logits = torch.randn(4, 3, dtype=torch.double, requires_grad=True)
    likelihood = (-torch.rand(4, 3, dtype=torch.double)).requires_grad_()
    marginal_nll(torch.log_softmax(logits, 1), likelihood).backward()
    other, same = (x.detach().clone().requires_grad_() for x in (logits, likelihood))
    p = other.exp() / other.exp().sum(dim=1, keepdim=True)
    total = sum(-torch.log(sum(same[b, y].exp() * p[b, y] for y in range(3))) for b in range(4)) / 4
    total.backward()
    torch.testing.assert_close(logits.grad, other.grad)
    torch.testing.assert_close(likelihood.grad, same.grad)
    assert float(logits.grad.abs().sum()) > 0  # the marginal reaches the retriever
