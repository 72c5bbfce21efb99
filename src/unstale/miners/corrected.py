"""Corrected, the paper's method: search h(B), and train h on the candidates of every step."""

import logging
from collections.abc import Callable
from functools import cached_property, partial
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unstale.buffer.sharded import Buffer
from unstale.corrector.losses import LOSSES
from unstale.corrector.memory import ResidualMemory, Rows
from unstale.corrector.network import Corrector
from unstale.miners.miner import Freshness, Miner, Queries, Ranked, View
from unstale.miners.stale import Stale, added_to
from unstale.miners.strategy import Materials, built_by
from unstale.search.added import Added
from unstale.search.auto import make_search
from unstale.search.exact import Exact
from unstale.search.search import Search
from unstale.search.sharded import search_in_place
from unstale.settings import LossName

_LOG = logging.getLogger(__name__)
_KL, _FLOOR, _OVERLAP = 1.05, 0.01, 0.02  # tolerances before the corrector counts as harmful


@final
class Corrected(Miner):
    """Search h(B) instead of B, and learn h from the fresh embeddings of the candidates.

    With the loss `ce` and without memory and fallback this is the paper's method to the letter.

    Args:
        buffer: The stale embeddings B.
        network: The corrector h.
        loss: The name of h's loss.
        memory: Adds to h(b) what it missed when the target was last encoded.
        search: Makes the search of h(B), when it is first needed; by default an exact one.
        gumbel_seed: Seed of Gumbel noise, to sample instead of taking the top k.
        fallback: Mine from the stale view for as long as the meter finds h worse than that.
    """

    def __init__(
        self,
        buffer: Buffer,
        network: Corrector,
        *,
        loss: LossName = "mse",
        memory: ResidualMemory | None = None,
        search: Callable[[], Search] | None = None,
        gumbel_seed: int | None = None,
        fallback: bool = True,
    ) -> None:
        super().__init__()
        self.buffer = buffer
        self.network = network
        self.memory = memory
        self._make_search = search or (
            lambda: search_in_place(buffer, lambda part: Exact(part, network))
        )
        self.gumbel_seed = gumbel_seed
        self.fallback = fallback
        self.trusted: Tensor
        self.register_buffer("trusted", torch.tensor(True))
        self._stale = Stale(buffer, gumbel_seed)
        self._correction_loss = LOSSES[loss]

    @cached_property
    def search(self) -> Search:
        """Return the search of h(B); it reads the buffer when it is made."""
        return self._make_search()

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b k"]:
        """Take the top k by `q.h(b)`, or a sample from their softmax."""
        if not self.trusted:
            return self._stale.mine(queries, k)
        self.search.begin(queries.step)
        added = added_to(queries, self.gumbel_seed, self.memory)
        return self.search.top_k(queries.vectors, k, queries.positives, added).rows

    def loss(
        self,
        queries: Queries,
        fresh: Float[Tensor, "c d"],
        rows: Int[Tensor, " c"],
        within: Bool[Tensor, "b c"] | None,
    ) -> Float[Tensor, ""]:
        """Compare P over the fresh candidates with P_h over the corrected ones."""
        corrected = self.network(self.buffer[rows])
        if self.memory is not None:
            self.memory.write(rows, fresh - corrected)
            self.search.remember(rows)
        return self._correction_loss(queries.vectors, fresh, corrected, queries.scale, within)

    def observe(self, reading: Freshness) -> None:
        """Warn of a corrector that does harm, and mine without it until it does not."""
        worse = worse_than_stale(reading)
        if worse:
            then = "mining falls back to the stale view" if self.fallback else "it is still used"
            _LOG.warning(
                "step %d: the corrector does worse than none (KL %.4g against %.4g, overlap %.3f "
                "against %.3f); %s",
                reading.step, reading.kl_corrected, reading.kl_stale, reading.overlap_corrected,
                reading.overlap_stale, then,
            )  # fmt: skip
        elif not self.trusted:
            _LOG.warning("step %d: the corrector helps again, and is used", reading.step)
        if self.fallback:
            self.trusted.fill_(not worse)

    def view(self, rows: Int[Tensor, " n"]) -> View:
        """Show the stale embeddings and the corrected ones."""
        stale = self.buffer[rows]
        corrected = self.network(stale)
        if self.memory is not None:
            corrected = corrected + self.memory.read(rows)
        return View(stale, corrected, bool(self.trusted))

    def ranked(
        self, queries: Float[Tensor, "q d"], k: int, exclude: Int[Tensor, "q p"] | None = None
    ) -> Ranked:
        """Find the k best targets of the stale and of the corrected view, each by a full scan.

        Not by the miner's own search, which may cover a part of the corpus and learns from what it
        is asked.
        """
        scan = search_in_place(self.buffer, lambda part: Exact(part, self.network))
        nobody = torch.zeros(len(queries), dtype=torch.long, device=queries.device)
        added = None if self.memory is None else Added(0, queries, nobody, self.memory)
        stale = self._stale.ranked(queries, k, exclude).stale
        return Ranked(stale, scan.top_k(queries, k, exclude, added), bool(self.trusted))

    def searches(self) -> list[Search]:
        """List the search of h(B)."""
        return [self.search]

    def row_tensors(self) -> dict[str, Rows]:
        """Name the tensors of the memory."""
        kept = {} if self.memory is None else self.memory.row_tensors()
        return {f"memory.{name}": rows for name, rows in kept.items()}


def worse_than_stale(reading: Freshness) -> bool:
    """Tell whether a corrector harms, by KL or overlap; NaN harms.

    Never by cosine: a shift common to all targets changes no ranking, but every cosine.
    """
    if reading.kl_corrected is None or reading.overlap_corrected is None:
        return False
    # While hardly anything has drifted, both divergences are noise: hence a floor.
    good = reading.kl_corrected <= max(_KL * reading.kl_stale, _FLOOR)
    return not (good and reading.overlap_corrected >= reading.overlap_stale - _OVERLAP)


def build_corrected(
    materials: Materials, search: Callable[[Corrector], Search] | None = None
) -> Corrected:
    """Build the miner of any strategy that trains a corrector; `search` is its way to search."""
    chosen, cache = materials.settings, materials.cache
    network = Corrector(cache.dim, chosen.corrector_widths, unit=materials.unit)
    network.to(materials.device)

    residuals = materials.residuals

    def chosen_search() -> Search:
        choice = materials.search
        assert choice is not None
        return search_in_place(
            cache,
            lambda part: make_search(choice, part, network, memory=residuals, seed=chosen.seed),
        )

    return Corrected(
        cache,
        network,
        loss=chosen.corrector_loss,
        memory=residuals,
        search=chosen_search if search is None else partial(search, network),
        gumbel_seed=materials.gumbel_seed,
        fallback=chosen.fallback,
    )


STRATEGY = built_by("corrected", build_corrected)
