"""The task losses, by hand and by their gradients."""

import math

import torch

from unstale.training.candidates import Candidates
from unstale.training.objectives import TruncatedSoftmax

SOFTMAX = TruncatedSoftmax(scale=2.0, dims=[3], unit=False)


def candidates(label: list[int], labels: list[bool], absent: torch.Tensor) -> Candidates:
    return Candidates(
        torch.arange(len(labels)), torch.tensor(label), absent, None, torch.tensor(labels)
    )


def test_the_batchs_own_positives_have_a_softmax_of_their_own() -> None:
    """Query 0 scores its label 0, the other label 0, and the mined target 1/2."""
    queries = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    targets = torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.0]])
    chosen = candidates([0, 1], [True, True, False], torch.zeros(2, 3, dtype=torch.bool))
    found = SOFTMAX.with_in_batch(queries, targets, chosen)
    # Scaled by 2: query 0 sees (0, 0 | 1), query 1 sees (0, 2 | 0).
    every = (math.log(1 + 1 + math.e) + math.log(2 + math.e**2) - 2) / 2
    own = (math.log(2) + math.log(1 + math.e**2) - 2) / 2
    torch.testing.assert_close(found, torch.tensor((every + own) / 2))


def test_without_mined_targets_it_is_the_plain_loss_and_has_its_gradient() -> None:
    torch.manual_seed(0)
    absent = torch.zeros(4, 4, dtype=torch.bool)
    absent[0, 2] = True  # another positive of query 0
    chosen = candidates([0, 1, 2, 3], [True] * 4, absent)
    gradients = []
    for added in (True, False):
        queries, targets = (torch.randn(4, 3, requires_grad=True) for _ in range(2))
        with torch.no_grad():
            queries.copy_(torch.arange(12.0).sin().view(4, 3))
            targets.copy_(torch.arange(12.0).cos().view(4, 3))
        if added:
            loss = SOFTMAX.with_in_batch(queries, targets, chosen)
        else:
            loss = SOFTMAX.cross_entropy(queries, targets, chosen.label, absent)
        loss.backward()
        gradients.append((loss.detach(), queries.grad, targets.grad))
    for ours, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, plain)
