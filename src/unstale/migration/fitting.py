"""What is done with a sample: draw it, learn from it, judge by it, and enlarge it where it matters.

Held-out targets judge, and have no say in what is chosen or learned.
"""

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from unstale.distributed import on_first
from unstale.errors import InputError
from unstale.evaluation.metrics import measure
from unstale.migration.embed import EmbeddedTargets, EmbedPicked
from unstale.migration.index import Known, index_chunks
from unstale.migration.learn import Learned, learn
from unstale.migration.queries import AskedQueries
from unstale.migration.sample import Picked, choose, most, retrieval_scores
from unstale.migration.settings import MigrateSettings
from unstale.migration.stale import StaleVectors
from unstale.migration.validate import Interval, Pairs, as_json, mean_interval, neighbour_overlap

CURVE = (0.25, 0.5)  # of the sample, for the curve of quality against sample size
ASKING = 500  # held-out targets, the most, that ask where there are no queries
RE_EMBEDDED = "re-embedded"  # the stage that enlarges the sample; later ones have a number, too
DEPTH = 10  # the least neighbours of a query that count as found


@final
@dataclass(frozen=True)
class Sampled:
    """The targets embedded with the new encoder, sorted by row."""

    rows: Int[ndarray, " n"]
    held_out: Bool[ndarray, " n"]
    asked_for: Bool[ndarray, " n"]  # whether queries chose it
    stale: Float[Tensor, "n d"]
    fresh: Float[Tensor, "n e"]
    seconds: float

    @classmethod
    def of(
        cls, source: StaleVectors, found: EmbeddedTargets, *, asked_for: bool = False
    ) -> "Sampled":
        """Pair what was embedded with what there was."""
        rows, apart = found.picked
        stale, asked = torch.from_numpy(source.take(rows)), np.full(len(rows), asked_for)
        return cls(rows, np.isin(rows, apart), asked, stale, found.fresh, found.seconds)

    def take(self, places: Int[ndarray, " m"]) -> "Sampled":
        """Keep some of the targets."""
        return Sampled(
            self.rows[places], self.held_out[places], self.asked_for[places],
            self.stale[places], self.fresh[places], self.seconds,
        )  # fmt: skip

    def joined(self, source: StaleVectors, found: EmbeddedTargets) -> "Sampled":
        """Add targets; the held-out ones that they set apart are held out no longer."""
        more = Sampled.of(source, found, asked_for=True)
        still = self.held_out & ~np.isin(self.rows, found.picked.apart)
        both = Sampled(
            np.concatenate([self.rows, more.rows]),
            np.concatenate([still, more.held_out]),
            np.concatenate([self.asked_for, more.asked_for]),
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
    seconds: float  # of fitting and judging
    re_embedded: int = 0  # targets by which the sample was enlarged


@final
@dataclass(frozen=True)
class Fitting:
    """How to get from old vectors to a judged corrector; `embed` embeds what is picked."""

    source: StaleVectors
    embed: EmbedPicked
    asked: AskedQueries
    settings: MigrateSettings
    device: torch.device | None = None  # on which the corrector is fitted and runs
    earlier: tuple[str, ...] = ()  # stages that enlarged the sample before this run

    def run(self, size: int, more: int, *, curve: bool = True) -> Fitted:
        """Draw a sample, fit to it, embed `more` targets where it matters, and fit again."""
        source, seed = self.source, self.settings.seed
        sample = Sampled.of(source, self.embed("sample", lambda: choose(source.rows, size, seed)))
        first = self.fit(sample, curve=curve)
        if not more:
            return first
        last = self.fit(self._enlarged(sample, first.learned, more), curve=False)
        points = [*first.curve, {"embedded": 0, "re_embedded": more} | last.curve[0]]
        seconds = first.seconds + last.seconds
        return replace(last, curve=points, seconds=seconds, re_embedded=more)

    def _enlarged(self, sample: Sampled, learned: Learned, more: int) -> Sampled:
        """Add what earlier runs embedded, and what is still lacking to `more` targets."""
        have = len(sample.rows)
        for stage in self.earlier:
            sample = sample.joined(self.source, self.embed(stage, _picked_already))
        rows = self.source.rows  # of which some may have come or gone
        wanted = rows if self.settings.re_embed == 1 else min(rows, have + more)
        lacking = wanted - len(sample.rows)
        if lacking <= 0:
            return sample
        stage = f"{RE_EMBEDDED}-{len(self.earlier) + 1}" if self.earlier else RE_EMBEDDED
        return self.enlarge(sample, learned, lacking, stage)

    def enlarge(
        self, sample: Sampled, learned: Learned, wanted: int, stage: str = RE_EMBEDDED
    ) -> Sampled:
        """Embed the targets, too, that the guiding queries find most often and highest.

        Args:
            sample: What is embedded already.
            learned: The corrector through which the rest is seen.
            wanted: How many to embed.
            stage: What to call it, so that it can be resumed.
        """
        source, queries = self.source, self.asked.guide
        if queries is None:
            raise InputError("targets that queries retrieve need queries")

        def pick() -> Picked:
            left = np.setdiff1d(np.arange(source.rows), sample.rows)
            if wanted == len(left):  # there is nothing to choose
                return Picked(left, left[:0])
            # Held-out targets are seen as corrected: their fresh vectors must not choose.
            seen = sample.known(held_out=False)
            index = index_chunks(
                source, learned.corrector, seen, "ranking", self.device,
                engine=self.settings.engine,
            )  # fmt: skip
            depth = max(DEPTH, -(-2 * wanted // len(queries)))
            scores = retrieval_scores(queries, index, source.rows, depth)
            held = sample.rows[sample.held_out]
            return most(scores, sample.rows, held, wanted, self.settings.seed)

        return sample.joined(source, self.embed(stage, pick))

    def fit(self, sample: Sampled, *, curve: bool = True) -> Fitted:
        """Fit on the sample, judge on what it holds out, and on smaller samples for the curve.

        The last point of the curve is the whole sample.
        """
        began = time.perf_counter()
        taught, held = (~sample.held_out).nonzero()[0], sample.held_out.nonzero()[0]
        generator = np.random.default_rng(self.settings.seed)
        points = []
        for part in (*(CURVE if curve else ()), 1.0):
            # The held-out targets stay the same, so that the points of the curve can be compared.
            some = generator.permutation(taught)[: round(part * len(taught))]
            smaller = sample.take(np.sort(np.concatenate([some, held])))
            learned = on_first(partial(self._learn, smaller))
            found = self.validate(learned, smaller)
            points.append({"embedded": len(smaller.rows), **as_json(found)})
        return Fitted(sample, learned, found, points, time.perf_counter() - began)

    def _learn(self, sample: Sampled) -> Learned:
        return learn(sample.stale, sample.fresh, sample.held_out, self.settings, self.device)

    def validate(self, learned: Learned, sample: Sampled) -> dict[str, Interval]:
        """Judge the new index on the held-out targets and queries."""
        asked, k = self.asked, self.settings.k
        queries, asking = asked.check, None
        held = torch.from_numpy(sample.held_out).nonzero()[:, 0]
        if queries is None:  # the first of them ask: in the order of rows they may be alike
            held = held[torch.randperm(len(held), generator=torch.Generator().manual_seed(0))]
        fresh = sample.fresh[held]
        if queries is None:  # their fresh vectors are as good as any new text's
            queries, asking = fresh[:ASKING], torch.from_numpy(sample.rows)[held][:ASKING]
        with torch.no_grad():
            seen = learned.corrector(sample.stale[held])
        cosine = torch.cosine_similarity(seen, fresh).numpy()
        intervals = {"cosine": mean_interval(cosine.astype(np.float64), least=-1.0)}
        index = index_chunks(
            self.source, learned.corrector, sample.known(), "validating", self.device,
            engine=self.settings.engine,
        )  # fmt: skip
        intervals[f"overlap@{k}"], found = neighbour_overlap(
            queries, index, sample.known(), Pairs(seen, fresh), k, asking=asking
        )
        if asked.qrels is not None and asked.rows is not None:  # only queries are a sample here
            recall = measure(asked.qrels, asked.rows, found)["recall@10"]
            intervals["recall@10"] = mean_interval(recall)
        return intervals


def _picked_already() -> Picked:
    raise InputError("an earlier stage of the migration lacks its list of targets; start anew")
