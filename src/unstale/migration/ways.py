"""How good is each way to serve? Stay, query-side, rewrite, re-embed a part, or re-embed all.

What stays in the old index, or is corrected, is searched as it would be. What the new model has not
embedded is imagined: its scores are drawn by the law that held-out targets follow. The relevant
targets of the judged queries are embedded for real, for a law of any target is not theirs; they
judge, and teach nothing.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor, nn

from unstale.evaluation.metrics import measure
from unstale.migration.adapter import QueryAdapter
from unstale.migration.fusion import EQUAL, Judged, choose_weight, folds, weigh
from unstale.migration.index import Known
from unstale.migration.law import Law
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
        sample: The targets that taught, whose fresh vectors a rewritten index holds.
        relevant: The embedded targets that are relevant to judged queries.
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
        found = self._search(old, new, torch.from_numpy(asked))
        values = {
            way: measure(judged.qrels, judged.rows, best)["recall@10"]
            for way, best in found.items()
        }
        return values, choose_weight(gains)

    def _search(
        self, old: Float[Tensor, "q d"], new: Float[Tensor, "q e"], asked: Float[Tensor, "q d"]
    ) -> dict[str, TopK]:
        """Search every way at once, in one pass over the index."""
        predicting = torch.from_numpy(self.adapter.predicting(old.numpy(), new.numpy()))
        level = new @ torch.from_numpy(self.adapter.mean_new)
        level = (level - predicting @ torch.from_numpy(self.adapter.mean_old))[:, None]
        guessed = predicting @ self.held_out.before.T + level
        valid = torch.ones_like(guessed, dtype=torch.bool)
        law = Law.fit(guessed, new @ self.held_out.fresh.T, valid)
        random = torch.Generator().manual_seed(self.seed)
        best = dict.fromkeys((STAY, QUERY_SIDE, REWRITE, ALL), nothing(old))
        read = _Read(nothing(old), old.new_zeros(len(old), 0))
        for start, vectors in self.source.chunks():
            stale = torch.from_numpy(vectors)
            with torch.no_grad():
                corrected = self.corrector(stale)
            here, places = _within(self.sample, start, len(stale))
            corrected[places] = self.sample.fresh[here]
            then, guess = old @ stale.T, predicting @ stale.T + level
            drawn = law.draw(guess, torch.rand(guess.shape, generator=random))
            drawn = torch.where(drawn.isinf(), guess, drawn)
            for known in (self.sample, self.relevant):
                here, places = _within(known, start, len(stale))
                drawn[:, places] = new @ known.fresh[here].T
            scores = {STAY: then, QUERY_SIDE: asked @ stale.T, ALL: drawn}
            scores[REWRITE] = new @ corrected.T
            for way, found in scores.items():
                best[way] = merge(best[way], found, start, _DEPTH)
            both = EQUAL * then + (1 - EQUAL) * self.adapter.scale * drawn
            read = read.merged(scores[QUERY_SIDE], both, start)
        return best | {PART: read.ranked()}


def _within(known: Known, start: int, count: int) -> tuple[Bool[Tensor, " k"], Tensor]:
    """Return which of the known rows a piece holds, and where in it."""
    here = (known.rows >= start) & (known.rows < start + count)
    return here, known.rows[here] - start


@final
class _Read(NamedTuple):
    """What the index fetches, and what both models say of it."""

    fetched: TopK
    both: Float[Tensor, "q k"]

    def merged(
        self, fetching: Float[Tensor, "q n"], both: Float[Tensor, "q n"], start: int
    ) -> "_Read":
        """Take the best of a piece in."""
        new = fetching.topk(min(READ, fetching.shape[1]), dim=1)
        scores = torch.cat([self.fetched.scores, new.values], dim=1)
        rows = torch.cat([self.fetched.rows, new.indices + start], dim=1)
        said = torch.cat([self.both, both.gather(1, new.indices)], dim=1)
        keep = scores.topk(min(READ, scores.shape[1]), dim=1)
        picked = TopK(keep.values, rows.gather(1, keep.indices))
        return _Read(picked, said.gather(1, keep.indices))

    def ranked(self) -> TopK:
        """Return the best ten of what was fetched, by both models."""
        best = self.both.topk(min(_DEPTH, self.both.shape[1]), dim=1)
        return TopK(best.values, self.fetched.rows.gather(1, best.indices))
