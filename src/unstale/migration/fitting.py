"""What is done with a sample: draw it, learn from it, judge by it, and enlarge it where it matters.

Held-out targets judge, and have no say in what is chosen or learned.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from unstale.errors import InputError
from unstale.evaluation.metrics import measure
from unstale.migration.embed import Embed, EmbeddedTargets
from unstale.migration.index import Known, index_chunks
from unstale.migration.learn import Learned, learn
from unstale.migration.queries import Asked
from unstale.migration.sample import choose, error_scores, most, retrieval_scores
from unstale.migration.settings import MigrateSettings, Priority
from unstale.migration.stale import StaleVectors
from unstale.migration.validate import Interval, Pairs, as_json, mean_interval, neighbour_overlap

CURVE = (0.25, 0.5)  # of the sample, for the curve of quality against sample size
ASKING = 500  # held-out targets, the most, that ask where there are no queries
DEPTH = 10  # the least neighbours of a query that count as found


@final
@dataclass(frozen=True)
class Sampled:
    """The targets embedded with the new encoder."""

    rows: Int[ndarray, " n"]
    held_out: Bool[ndarray, " n"]
    stale: Float[Tensor, "n d"]
    fresh: Float[Tensor, "n e"]
    seconds: float

    @classmethod
    def of(cls, source: StaleVectors, found: EmbeddedTargets) -> "Sampled":
        """Pair what was embedded with what there was."""
        rows, apart = found.picked
        stale = torch.from_numpy(source.take(rows))
        return cls(rows, np.isin(rows, apart), stale, found.fresh, found.seconds)

    def take(self, places: Int[ndarray, " m"]) -> "Sampled":
        """Keep some of the targets."""
        return replace(
            self, rows=self.rows[places], held_out=self.held_out[places],
            stale=self.stale[places], fresh=self.fresh[places],
        )  # fmt: skip

    def joined(self, source: StaleVectors, found: EmbeddedTargets) -> "Sampled":
        """Add targets; the held-out ones that they set apart are held out no longer."""
        more = Sampled.of(source, found)
        still = self.held_out & ~np.isin(self.rows, found.picked.apart)
        both = Sampled(
            np.concatenate([self.rows, more.rows]),
            np.concatenate([still, more.held_out]),
            torch.cat([self.stale, more.stale]),
            torch.cat([self.fresh, more.fresh]),
            self.seconds + more.seconds,
        )
        return both.take(np.argsort(both.rows))

    def known(self, *, held_out: bool = True) -> Known:
        """Return the fresh vectors by row, with or without those of held-out targets."""
        some = torch.from_numpy(~self.held_out | held_out)
        return Known(torch.from_numpy(self.rows)[some], self.fresh[some])


@final
@dataclass(frozen=True)
class Fitted:
    """A corrector, the sample that it was fitted to, and the judgement of the index it makes."""

    sample: Sampled
    learned: Learned
    found: dict[str, Interval]
    curve: list[dict[str, Any]]  # smaller samples first
    drawn: int  # targets of the sample before it was enlarged
    seconds: float  # of fitting and judging


@final
@dataclass(frozen=True)
class Fitting:
    """How to get from old vectors to a judged corrector.

    `embed` embeds the targets that are picked. If a corrector is `given`, nothing is fitted, and
    the whole sample judges it.
    """

    source: StaleVectors
    embed: Embed
    asked: Asked
    settings: MigrateSettings
    given: Learned | None = None

    def run(self, size: Callable[[], int], more: int, *, curve: bool = True) -> Fitted:
        """Draw a sample, fit to it, embed `more` targets where it matters, and fit again.

        `size` says how large the sample is; it is called only if none was chosen before.
        """
        sample = self.draw(size)
        drawn, began = len(sample.rows), time.perf_counter()
        learned, found, points = self.fit(sample, curve=curve)
        seconds = time.perf_counter() - began
        if more:
            by = self.settings.re_embed_by
            sample = self.enlarge(sample, learned, "re-embedded", more, by)
            began = time.perf_counter()
            learned, found, (last,) = self.fit(sample, curve=False)  # what was paid for teaches
            seconds += time.perf_counter() - began
            if added := len(sample.rows) - drawn:
                points.append({"embedded": len(sample.rows), "re_embedded": added} | last)
        return Fitted(sample, learned, found, points, drawn, seconds)

    def draw(self, size: Callable[[], int]) -> Sampled:
        """Choose targets and embed them."""
        sampling, seed = self.settings.sampling, self.settings.seed
        found = self.embed("sample", lambda: choose(self.source, size(), sampling, seed))
        sample = Sampled.of(self.source, found)
        if self.given is not None:
            return replace(sample, held_out=np.ones(len(sample.rows), bool))
        if sampling != "queries":
            return sample
        linear = replace(self.settings, method="linear")
        learned = learn(sample.stale, sample.fresh, sample.held_out, linear)
        wanted = int((~sample.held_out).sum())
        return self.enlarge(sample, learned, "neighbours", wanted, "retrieved")

    def enlarge(
        self, sample: Sampled, learned: Learned, stage: str, wanted: int, by: Priority
    ) -> Sampled:
        """Embed the targets that matter most, and add them to the sample.

        Args:
            sample: What is embedded already.
            learned: The corrector through which the rest is seen.
            stage: A name for these targets.
            wanted: How many to embed; fewer if there are no more.
            by: Which matter most, as `MigrateSettings.re_embed_by`.
        """
        source, queries, seed = self.source, self.asked.guide, self.settings.seed

        def rank() -> Float[ndarray, " n"]:
            if by == "worst":
                return error_scores(source, sample.stale[torch.from_numpy(~sample.held_out)])
            if queries is None:
                raise InputError("targets that queries retrieve need queries")
            # Held-out targets are seen as corrected: their fresh vectors must not choose.
            index = index_chunks(source, learned.corrector, sample.known(held_out=False), "ranking")
            depth = max(DEPTH, -(-2 * wanted // len(queries)))
            return retrieval_scores(queries, index, source.rows, depth)

        wanted = min(wanted, source.rows - len(sample.rows))
        if not wanted:
            return sample
        held = sample.rows[sample.held_out]
        found = self.embed(stage, lambda: most(rank(), sample.rows, held, wanted, seed))
        return sample.joined(source, found)

    def fit(
        self, sample: Sampled, *, curve: bool = True
    ) -> tuple[Learned, dict[str, Interval], list[dict[str, Any]]]:
        """Fit on the sample, judge on what it holds out, and on smaller samples for the curve.

        The last point of the curve is the whole sample.
        """
        if self.given is not None:
            return self.given, self.validate(self.given, sample), []
        taught = (~sample.held_out).nonzero()[0]
        generator = np.random.default_rng(self.settings.seed)
        points = []
        for part in CURVE if curve else ():
            # The held-out targets stay the same, so that the points of the curve can be compared.
            some = generator.permutation(taught)[: round(part * len(taught))]
            smaller = sample.take(np.sort(np.concatenate([some, sample.held_out.nonzero()[0]])))
            found = self.validate(self._learn(smaller), smaller)
            points.append({"embedded": len(smaller.rows), **as_json(found)})
        learned = self._learn(sample)
        found = self.validate(learned, sample)
        return learned, found, [*points, {"embedded": len(sample.rows), **as_json(found)}]

    def _learn(self, sample: Sampled) -> Learned:
        queries = self.asked.guide if self.settings.loss == "ce" else None
        return learn(sample.stale, sample.fresh, sample.held_out, self.settings, queries)

    def validate(self, learned: Learned, sample: Sampled) -> dict[str, Interval]:
        """Judge the new index on the held-out targets and queries."""
        asked, k = self.asked, self.settings.k
        held = torch.from_numpy(sample.held_out).nonzero()[:, 0]
        if asked.check is None:  # the first of them ask: in the order of rows they may be alike
            held = held[torch.randperm(len(held), generator=torch.Generator().manual_seed(0))]
        fresh = sample.fresh[held]
        with torch.no_grad():
            seen = learned.corrector(sample.stale[held])
        cosine = torch.cosine_similarity(seen, fresh).numpy()
        intervals = {"cosine": mean_interval(cosine.astype(np.float64), least=-1.0)}
        # Without queries, held-out targets ask: their fresh vectors are as good as any new text's.
        asking = torch.from_numpy(sample.rows)[held][:ASKING] if asked.check is None else None
        queries = fresh[:ASKING] if asked.check is None else asked.check
        known = sample.known()
        written = known if self.settings.keep_fresh else known.none

        def pieces() -> Iterator[tuple[int, Float[Tensor, "m e"]]]:
            return index_chunks(self.source, learned.corrector, written, "validating")

        intervals[f"overlap@{k}"], found = neighbour_overlap(
            queries, pieces, known.rows, known.fresh, Pairs(seen, fresh), k, asking=asking
        )
        if asked.qrels is not None and asked.rows is not None:  # only queries are a sample here
            recall = measure(asked.qrels, asked.rows, found)["recall@10"]
            intervals["recall@10"] = mean_interval(recall)
        return intervals
