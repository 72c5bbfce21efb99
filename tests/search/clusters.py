"""Targets in clusters, and a corrector that moves: what searches are tried on."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

from unstale.corrector.network import Corrector
from unstale.search.exact import Exact
from unstale.search.ivf import IVF
from unstale.search.rolling import Rolling
from unstale.search.search import Search

MODES: dict[str, Callable[..., Search]] = {"exact": Exact, "rolling": Rolling, "ivf": IVF}


def clustered(n: int, d: int, seed: int, *, unit: bool = True) -> tuple[Tensor, Tensor, Corrector]:
    """Targets in clusters, queries near some of them, and a corrector that has moved."""
    torch.manual_seed(seed)
    centres = normalize(torch.randn(max(1, n // 40), d))
    stale = normalize(centres[torch.randint(len(centres), (n,))] + normalize(torch.randn(n, d)))
    queries = normalize(stale[torch.randint(n, (9,))] + 0.9 * normalize(torch.randn(9, d)))
    # Norms of h are known only once rows are renewed: as in training, they begin near 1.
    return queries, stale, moved(Corrector(d, (2 * d,), unit=unit), 0.06 if unit else 0.1)


def moved(network: Corrector, by: float) -> Corrector:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(by * torch.randn_like(parameter))
    return network.requires_grad_(False)
