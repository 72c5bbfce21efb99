"""How good is each way to serve? Stay, query-side, rewrite, re-embed a part, or re-embed all.

What stays in the old index, or is corrected, is searched as it would be. Where the new model ranks,
the relevant targets of the judged queries are embedded for real; they judge, and teach nothing. A
relevant target is found if fewer than ten others beat it: those that are embedded do or do not, and
the others do with a chance (`contest.py`).
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor, nn

from unstale.evaluation.metrics import measure
from unstale.migration.adapter import QueryAdapter
from unstale.migration.contest import Contests, Curve, among_first, summed
from unstale.migration.fusion import Judged, choose_weight, folds, weigh
from unstale.migration.index import Known
from unstale.migration.stale import StaleVectors
from unstale.migration.validate import Pairs
from unstale.search.best import TopK, merge, nothing

STAY, QUERY_SIDE, REWRITE = "stay", "query-side", "rewrite"
PART, ALL = "re-embed a part", "re-embed all"
WAYS = (STAY, QUERY_SIDE, REWRITE, PART, ALL)  # the cheapest first
READ = 20  # targets of a query that the new model reads, where a part is re-embedded
_DEPTH = 10


@final
@dataclass(frozen=True)
class Trial:
    """What judged queries find by each way.

    Args:
        source: The old index.
        adapter: Fitted to the sample; its weight is chosen anew, by other queries than it judges.
        corrector: What a rewritten index would be made of.
        sample: The targets that taught, by row, whose fresh vectors a rewritten index holds.
        relevant: The embedded targets that are relevant to judged queries, by row.
        held_out: Targets that show how fresh scores follow predicted ones.
    """

    source: StaleVectors
    adapter: QueryAdapter
    corrector: nn.Module
    sample: Known
    relevant: Known
    held_out: Pairs
    seed: int = 0

    def run(self, judged: Judged) -> tuple[dict[str, Float[ndarray, " q"]], float]:
        """Return the measure of each query by each way, and the weight that all of them choose."""
        old, new = judged.queries
        gains = weigh(self.adapter, self.source, judged)
        asked = np.empty_like(old.numpy())
        for choosing, asking in folds(len(judged.rows), self.seed):
            adapter = replace(self.adapter, weight=choose_weight(gains[:, choosing]))
            asked[asking] = adapter.mixed(old.numpy()[asking], new.numpy()[asking])
        known, curve = self._known(judged)
        best = dict.fromkeys((STAY, QUERY_SIDE, REWRITE), nothing(old))
        winners = np.zeros((len(known.query), 2))
        predicting, level = self._predicting(judged)
        for start, vectors in self.source.chunks():
            stale = torch.from_numpy(vectors)
            with torch.no_grad():
                corrected = self.corrector(stale)
            here, places = _within(self.sample, start, len(stale))
            corrected[places] = self.sample.fresh[here]
            scores = {STAY: old @ stale.T, REWRITE: new @ corrected.T}
            scores[QUERY_SIDE] = torch.from_numpy(asked) @ stale.T
            for way, found in scores.items():
                best[way] = merge(best[way], found, start, READ if way == QUERY_SIDE else _DEPTH)
            guess = (predicting @ stale.T + level).numpy()[known.query]
            chance = curve.chances(known, guess, known.now)
            for embedded in (self.sample, self.relevant):
                here, places = _within(embedded, start, len(stale))
                now = (new @ embedded.fresh[here].T).numpy()[known.query]
                chance[:, places.numpy()] = now > known.now
            # No target is a rival of itself: the same score, summed in another order, may differ.
            own = ((known.target >= start) & (known.target < start + len(stale))).nonzero()[0]
            chance[own, known.target[own] - start] = 0
            winners += summed(chance)
        fetched = best[QUERY_SIDE]
        best[QUERY_SIDE] = TopK(fetched.scores[:, :_DEPTH], fetched.rows[:, :_DEPTH])
        values = {
            way: measure(judged.qrels, judged.rows, found)["recall@10"]
            for way, found in best.items()
        }
        read = self._read(judged, known, curve, fetched.rows.numpy())
        for way, found in ((PART, read), (ALL, among_first(_DEPTH, winners))):
            counts = np.bincount(known.query, minlength=len(old))
            values[way] = np.bincount(known.query, found, len(old)) / counts
        return values, choose_weight(gains)

    def _predicting(self, judged: Judged) -> tuple[Float[Tensor, "q d"], Float[Tensor, "q 1"]]:
        """Return what predicts the new model's scores: queries for old vectors, and a constant."""
        old, new = judged.queries
        asked = torch.from_numpy(self.adapter.predicting(old.numpy(), new.numpy()))
        level = new @ torch.from_numpy(self.adapter.mean_new)
        return asked, (level - asked @ torch.from_numpy(self.adapter.mean_old))[:, None]

    def _known(self, judged: Judged) -> tuple[Contests, Curve]:
        """Return the relevant targets, and the chance to beat them as held-out targets show it."""
        old, new = judged.queries
        pairs = judged.qrels.pairs[np.isin(judged.qrels.pairs[:, 0], judged.rows)]
        order, target = np.argsort(judged.rows), pairs[:, 1]
        query = order[np.searchsorted(judged.rows[order], pairs[:, 0])]
        place = np.searchsorted(self.relevant.rows.numpy(), target)
        rivals = torch.from_numpy(self.source.take(self.relevant.rows.numpy()))
        stale, fresh = rivals[place], self.relevant.fresh[place]
        asked, level = self._predicting(judged)
        scores = (new @ torch.cat([self.sample.fresh, self.held_out.fresh]).T)[query]
        sides = [
            (old[query] * stale).sum(dim=1), (asked[query] * stale).sum(dim=1) + level[query, 0],
            (new[query] * fresh).sum(dim=1), scores.mean(dim=1), scores.std(dim=1).clamp(min=1e-9),
        ]  # fmt: skip
        known = Contests(query, target, *(side[:, None].double().numpy() for side in sides))
        # The relevant targets of other queries have taught nothing either.
        before = torch.cat([self.held_out.before, rivals])
        guess = (asked @ before.T + level).numpy()[query]
        seen = torch.cat([self.held_out.fresh, self.relevant.fresh])
        won = (new @ seen.T).numpy()[query] > known.now
        other = np.ones_like(won)
        other[np.arange(len(query)), len(self.held_out.fresh) + place] = False
        return known, Curve.fit(known.sides(guess, known.now)[other], won[other])

    def _read(
        self, judged: Judged, known: Contests, curve: Curve, fetched: Int[ndarray, "q k"]
    ) -> Float[ndarray, " p"]:
        """Return the chance that a relevant target is among the first by both models."""
        rivals = fetched[known.query]
        rows, place = np.unique(rivals, return_inverse=True)
        place = place.reshape(rivals.shape)
        stale = torch.from_numpy(self.source.take(rows))
        asked, level = self._predicting(judged)
        then = np.take_along_axis((judged.queries.old @ stale.T).numpy()[known.query], place, 1)
        guess = np.take_along_axis((asked @ stale.T + level).numpy()[known.query], place, 1)
        needed = known.now + (known.then - then) / self.adapter.scale
        chance = curve.chance(known.sides(guess, needed))
        for embedded in (self.sample, self.relevant):
            kept = embedded.rows.numpy()
            at = np.searchsorted(kept, rivals).clip(max=len(kept) - 1)
            now = (judged.queries.new @ embedded.fresh.T).numpy()[known.query]
            won = np.take_along_axis(now, at, 1) > needed
            chance = np.where(kept[at] == rivals, won, chance)
        own = rivals == known.target[:, None]
        return among_first(_DEPTH, summed(np.where(own, 0.0, chance))) * own.any(axis=1)


def _within(known: Known, start: int, count: int) -> tuple[Bool[Tensor, " k"], Tensor]:
    """Return which of the known rows a piece holds, and where in it."""
    here = (known.rows >= start) & (known.rows < start + count)
    return here, known.rows[here] - start
