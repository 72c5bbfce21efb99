"""Train many small correctors at once: their parameters are stacked, and every step is a bmm.

One corrector of the synthetic studies is far too small to keep a processor busy; two hundred of
the same shape are not. Each stops on its own, by the paper's rule, and leaves the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.studies.declared import EPOCHS

LEARNING_RATE, PATIENCE = 0.03, 100  # the paper's
Parameters = list[Tensor]  # W, c, W, c, ...; the first axis counts the correctors


def start(
    models: int, widths: Sequence[int], generator: torch.Generator, gain: float | None = None
) -> Parameters:
    """Draw the parameters of `models` residual MLPs, by default as torch's Linear does.

    Args:
        models: How many.
        widths: In, hidden, out.
        generator: Of the draws.
        gain: Draw all layers normally with this standard deviation, times 1 / sqrt(fan in); by
            default the last one is zero, a corrector's start.
    """
    parameters = []
    for i, (a, b) in enumerate(pairwise(widths)):
        last = i == len(widths) - 2
        if last and gain is None:
            parameters += [torch.zeros(models, a, b), torch.zeros(models, 1, b)]
        elif gain is not None:
            weight = torch.randn(models, a, b, generator=generator) * gain / a**0.5
            parameters += [weight, gain * torch.randn(models, 1, b, generator=generator) / a**0.5]
        else:
            bound = a**-0.5
            for shape in ((models, a, b), (models, 1, b)):
                parameters.append((2 * torch.rand(shape, generator=generator) - 1) * bound)
    return parameters


def residual_mlp(parameters: Parameters, stale: Float[Tensor, "m n d"]) -> Float[Tensor, "m n d"]:
    """Apply corrector i to the targets of task i."""
    hidden = stale
    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        hidden = torch.relu(torch.baddbmm(bias, hidden, weight))
    return stale + torch.baddbmm(parameters[-1], hidden, parameters[-2])


@final
@dataclass(frozen=True)
class Tasks:
    """Stale targets, queries and what their true distribution asks for, one task a corrector."""

    stale: Float[Tensor, "m n d"]
    queries: Float[Tensor, "m q d"]
    scale: float
    entropy: Float[Tensor, " m"]
    pull: Float[Tensor, "m n d"]

    @classmethod
    def make(
        cls,
        stale: Float[Tensor, "m n d"],
        fresh: Float[Tensor, "m n d"],
        queries: Float[Tensor, "m q d"],
        scale: float,
    ) -> "Tasks":
        """Make tasks of pairs of stale and fresh targets with queries."""
        logits = scale * torch.bmm(queries, fresh.transpose(1, 2))
        true = torch.log_softmax(logits, dim=2)
        # KL(P || P_h) = -H(P) - E_P[logit_h] + log Z_h, and the middle term is linear in h: only
        # log Z_h needs a pass over queries x targets at each step.
        entropy = -(true.exp() * true).sum(dim=2).mean(dim=1)
        pull = scale * torch.bmm(true.exp().transpose(1, 2), queries) / queries.shape[1]
        return cls(stale, queries, scale, entropy, pull)

    def __len__(self) -> int:
        """Count the tasks."""
        return len(self.stale)

    def divergence(self, seen: Float[Tensor, "m n d"]) -> Float[Tensor, " m"]:
        """Compute KL(P || P_seen) of each task, the mean over its queries."""
        logits = torch.bmm(self.queries, seen.transpose(1, 2)).mul_(self.scale)
        partition = torch.logsumexp(logits, dim=2).mean(dim=1)
        return partition - (self.pull * seen).sum(dim=(1, 2)) - self.entropy

    def take(self, chosen: Int[Tensor, " k"]) -> "Tasks":
        """Keep some of the tasks."""
        return Tasks(
            self.stale[chosen],
            self.queries[chosen],
            self.scale,
            self.entropy[chosen],
            self.pull[chosen],
        )


def train_correctors(
    tasks: Tasks,
    parameters: Parameters,
    *,
    learning_rate: float = LEARNING_RATE,
    epochs: int = EPOCHS,
    patience: int = PATIENCE,
) -> Parameters:
    """Train corrector i on task i by Adam; each stops and keeps its best by its training loss."""
    models = len(tasks)
    best_loss = torch.full((models,), torch.inf)
    best_epoch = torch.zeros(models, dtype=torch.long)
    best = [p.clone() for p in parameters]
    running = torch.arange(models)
    live = [p.clone().requires_grad_() for p in parameters]
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
    for epoch in range(1, epochs + 1):
        losses = tasks.divergence(residual_mlp(live, tasks.stale))
        better = losses.detach() < best_loss[running]
        won = running[better]
        best_loss[won], best_epoch[won] = losses.detach()[better], epoch
        for kept, now in zip(best, live, strict=True):
            kept[won] = now.detach()[better]
        staying = epoch - best_epoch[running] < patience
        gradients = torch.autograd.grad(losses.sum(), live)
        with torch.no_grad():
            for p, g, (first, second) in zip(live, gradients, moments, strict=True):
                first.lerp_(g, 0.1)
                second.lerp_(g.square(), 0.001)
                size = (second / (1 - 0.999**epoch)).sqrt_().add_(1e-8)
                p -= learning_rate / (1 - 0.9**epoch) * first / size
        # Compact only when a fifth has stopped: it copies all that is left.
        if int((~staying).sum()) > len(running) // 5:
            keep = staying.nonzero()[:, 0]
            if not len(keep):
                break
            running, tasks = running[keep], tasks.take(keep)
            live = [p.detach()[keep].requires_grad_() for p in live]
            moments = [(a[keep], b[keep]) for a, b in moments]
    return best
