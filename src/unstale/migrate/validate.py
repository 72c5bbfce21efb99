"""How much of the true neighbours does the corrected index find, judged by the sample alone?

That cannot be seen: the fresh vectors of the other targets do not exist. Each of them is imagined
instead, by the move of a random held-out target from where the corrector puts it to where the new
encoder does; targets that were embedded keep their fresh vectors. A move can be carried over as it
is, or turned along with the target. Where targets lie close around a query the former makes too
much of it, where errors follow the query the latter does; which of the two to believe, the held-out
targets tell, whose truth is known.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from unstale.migrate.interval import Interval
from unstale.migrate.learn import is_unit
from unstale.search.best import TopK, merge, merge_best, nothing

GROUPS = 10  # of held-out targets, for the jackknife
LEAST_FOUND = 10  # targets for each query: recall@10 needs them
TRIES, TRIED = 8, 2000  # to tell carried from turned: draws of moves, and the most targets
ALIKE = 0.02  # of the queries: carried and turned that differ by less are alike
Chunks = Callable[[], Iterator[tuple[int, Float[Tensor, "n e"]]]]


class Moves(NamedTuple):
    """Held-out targets, by row: where the corrector puts them, and where the new encoder does."""

    corrected: Float[Tensor, "h e"]
    fresh: Float[Tensor, "h e"]

    def take(self, chosen: Tensor) -> "Moves":
        """Return some of the moves, by their numbers or a mask."""
        return Moves(self.corrected[chosen], self.fresh[chosen])

    def carried(self, begin: Float[Tensor, "h e"]) -> Float[Tensor, "h e"]:
        """Make each move from another beginning; return where it ends, at length one if all do."""
        ends = begin + self.fresh - self.corrected
        return functional.normalize(ends, dim=1) if is_unit(self.fresh) else ends

    def turned(self, begin: Float[Tensor, "h e"]) -> Float[Tensor, "h e"]:
        """Do the same, turned by the least turn that takes one beginning's direction to the other.

        Unit vectors stay so, and what a move loses of its own direction is lost of the other's.
        """
        a, b = (functional.normalize(v, dim=1) for v in (self.corrected, begin))
        error = self.fresh - self.corrected
        # With m = a + b the turn takes x to x - m (m.x) / (1 + a.b) + 2 b (a.x): a goes to b.
        share = _dot(a + b, error) / (1 + _dot(a, b)).clamp(min=1e-6)
        return begin + error - share * (a + b) + 2 * _dot(a, error) * b


WAYS = (Moves.carried, Moves.turned)


def neighbour_overlap(
    queries: Float[Tensor, "q e"],
    corrected: Chunks,
    rows: Int[Tensor, " s"],
    fresh: Float[Tensor, "s e"],
    moves: Moves,
    k: int = 10,
    seed: int = 0,
) -> tuple[Interval, TopK]:
    """Estimate how much of the true top k of the whole corpus the new index finds.

    The variance adds up that over queries and a jackknife over groups of held-out targets: what
    changes if the targets that drew a move of one group draw another.

    Args:
        queries: Fresh query vectors that the corrector was not fitted to.
        corrected: Starts a pass over the new index as it will be written.
        rows: The rows whose fresh vectors are known.
        fresh: Those vectors.
        moves: Of held-out targets.
        k: How many neighbours.
        seed: Of the draws.

    Returns:
        The estimate, and what the new index finds: at least ten targets, if there are so many.
    """
    generator = torch.Generator().manual_seed(seed)
    held = len(moves.fresh)
    group = torch.randperm(held, generator=generator) % min(GROUPS, held)
    count = int(group.max()) + 1
    found, known = nothing(queries), nothing(queries)
    # By way and group: the targets that drew a move of it, and the same with one of the others.
    drew, again = ([[nothing(queries)] * count for _ in WAYS] for _ in range(2))
    for start, vectors in corrected():
        found = merge(found, queries @ vectors.T, start, max(k, LEAST_FOUND))
        here = (rows >= start) & (rows < start + len(vectors))
        known = _merge(known, queries @ fresh[here].T, rows[here], k)
        unseen = torch.ones(len(vectors), dtype=torch.bool)
        unseen[rows[here] - start] = False
        drawn = torch.randint(held, (len(vectors),), generator=generator)
        for i in range(count):
            ours = (unseen & (group[drawn] == i)).nonzero()[:, 0]
            others = (group != i).nonzero()[:, 0]
            redrawn = others[torch.randint(len(others), ours.shape, generator=generator)]
            for best, used in ((drew, drawn[ours]), (again, redrawn)):
                for way, ends in enumerate(WAYS):
                    scores = queries @ ends(moves.take(used), vectors[ours]).T
                    best[way][i] = _merge(best[way][i], scores, start + ours, k)
    top = TopK(found.scores[:, :k], found.rows[:, :k])

    def overlap(turned: float, without: int | None = None) -> Float[Tensor, " q"]:
        shared = []
        for way in range(len(WAYS)):
            lists = [again[way][i] if i == without else drew[way][i] for i in range(count)]
            true = reduce(lambda one, other: merge_best(one, other, k), lists, known)
            shared.append(_shared(top, true))
        return (1 - turned) * shared[0] + turned * shared[1]

    whole = overlap(part_turned(queries, moves))
    parts = np.array(
        [
            float(overlap(part_turned(queries, moves.take(group != i)), i).mean())
            for i in range(count)
        ]
    )
    spread = (count - 1) / count * float(np.square(parts - parts.mean()).sum())
    variance = float(whole.var()) / len(whole) + spread if len(whole) > 1 else float("inf")
    freedom = count - 1 if spread else max(1, len(whole) - 1)
    return Interval.around(float(whole.mean()), variance, freedom), found


def part_turned(queries: Float[Tensor, "q e"], moves: Moves) -> float:
    """Tell how far to believe turned moves, from 0 to 1, by held-out targets among themselves.

    How often the first of them stays the first is known, and is imagined both ways.
    """
    moves = Moves(moves.corrected[:TRIED], moves.fresh[:TRIED])
    first, true = ((queries @ vectors.T).argmax(dim=1) for vectors in moves)
    imagined = []
    for ends in WAYS:
        stays = [
            (queries @ ends(Moves(*(v.roll(i, 0) for v in moves)), moves.corrected).T).argmax(dim=1)
            == first
            for i in range(1, 1 + TRIES)
        ]
        imagined.append(float(torch.stack(stays).float().mean()))
    carried, turned = imagined
    if abs(turned - carried) < ALIKE:
        return 0.5
    share = (float((first == true).float().mean()) - carried) / (turned - carried)
    return min(1.0, max(0.0, share))


def _merge(best: TopK, scores: Float[Tensor, "q n"], rows: Int[Tensor, " n"], k: int) -> TopK:
    """Merge the scores of some rows into the best k so far."""
    top = scores.topk(min(k, scores.shape[1]), dim=1)
    return merge_best(best, TopK(top.values, rows[top.indices]), k)


def _shared(found: TopK, true: TopK) -> Float[Tensor, " q"]:
    """Return the part of each query's true rows that were found."""
    return (true.rows[:, :, None] == found.rows[:, None, :]).any(dim=2).float().mean(dim=1)


def _dot(one: Float[Tensor, "n e"], other: Float[Tensor, "n e"]) -> Float[Tensor, "n 1"]:
    return (one * other).sum(dim=1, keepdim=True)
