"""Migrate an index: sample, embed, fit, validate, and embed more where it matters."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from unstale.data.dataset import Qrels
from unstale.errors import InputError
from unstale.evaluation.metrics import measure
from unstale.migrate.embed import Embed, Embedded
from unstale.migrate.index import Known, index_chunks
from unstale.migrate.interval import Interval, as_json, mean_interval
from unstale.migrate.learn import Learned, Method, learn
from unstale.migrate.priority import Priority, error_scores, most, retrieval_scores
from unstale.migrate.sample import Sampling, choose
from unstale.migrate.source import Source
from unstale.migrate.validate import Pairs, neighbour_overlap

CURVE = (0.25, 0.5)  # of the sample, for the curve of quality against sample size
ASKING = 500  # held-out targets, the most, that ask where there are no queries
DEPTH = 10  # the least neighbours of a query that count as found


@final
@dataclass(frozen=True)
class Asked:
    """Fresh query vectors: some may choose and teach, others only judge.

    What was chosen for a query cannot be judged by it: it would look too good.
    """

    guide: Float[Tensor, "g e"] | None
    check: Float[Tensor, "c e"] | None
    qrels: Qrels | None = None  # the answers of the queries that judge
    rows: Int[ndarray, " c"] | None = None  # which queries those are


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
    def of(cls, source: Source, found: Embedded) -> "Sampled":
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

    def joined(self, source: Source, found: Embedded) -> "Sampled":
        """Add targets; the held-out ones that they set apart are held out no longer."""
        more = Sampled.of(source, found)
        both = Sampled(
            np.concatenate([self.rows, more.rows]),
            np.concatenate(
                [self.held_out & ~np.isin(self.rows, found.picked.apart), more.held_out]
            ),
            torch.cat([self.stale, more.stale]),
            torch.cat([self.fresh, more.fresh]),
            self.seconds + more.seconds,
        )
        return both.take(np.argsort(both.rows))

    def known(self, *, held_out: bool = True) -> Known:
        """Return the fresh vectors by row, with or without those of held-out targets."""
        some = torch.from_numpy(~self.held_out | held_out)
        return Known(torch.from_numpy(self.rows)[some], self.fresh[some])


def draw_sample(
    source: Source,
    size: Callable[[], int],
    embed: Embed,
    *,
    sampling: Sampling = "uniform",
    queries: Float[Tensor, "q e"] | None = None,
    seed: int = 0,
) -> Sampled:
    """Choose targets and embed them with the new encoder.

    Args:
        source: The old vectors.
        size: Says how many targets; asked only if nothing was chosen before.
        embed: Embeds what is picked.
        sampling: `uniform`; `coverage`, alike from all k-means cells of the old vectors; or
            `queries`, half of the taught targets uniform and half the neighbours of queries.
        queries: Fresh vectors of the queries whose neighbours to take.
        seed: Of the choice.
    """
    sample = Sampled.of(source, embed("sample", lambda: choose(source, size(), sampling, seed)))
    if sampling != "queries":
        return sample
    learned = learn(sample.stale, sample.fresh, sample.held_out, method="linear")
    wanted = int((~sample.held_out).sum())
    return embed_more(
        source, sample, learned, embed, "neighbours", wanted, "retrieved", queries, seed
    )


def embed_more(
    source: Source,
    sample: Sampled,
    learned: Learned,
    embed: Embed,
    stage: str,
    wanted: int,
    by: Priority,
    queries: Float[Tensor, "q e"] | None,
    seed: int,
) -> Sampled:
    """Embed the targets that matter most, for real, and add them to the sample.

    Args:
        source: The old vectors.
        sample: What is embedded already.
        learned: The corrector through which the rest is seen.
        embed: Embeds what is picked.
        stage: A name for these targets.
        wanted: How many to embed; fewer if there are no more.
        by: `retrieved`, most often and highest by the queries; `worst`, least well predicted.
        queries: Fresh query vectors, for `retrieved`. They must not judge what comes of it.
        seed: Of the order among equals.
    """

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
    found = embed(stage, lambda: most(rank(), sample.rows, held, wanted, seed))
    return sample.joined(source, found)


def validate(
    source: Source, learned: Learned, sample: Sampled, asked: Asked, *, k: int, keep_fresh: bool
) -> dict[str, Interval]:
    """Judge the new index on the held-out targets and queries."""
    held = torch.from_numpy(sample.held_out).nonzero()[:, 0]
    if asked.check is None:  # the first of them ask, which rows in their order would not stand for
        held = held[torch.randperm(len(held), generator=torch.Generator().manual_seed(0))]
    with torch.no_grad():
        seen = learned.corrector(sample.stale[held])
    cosine = torch.cosine_similarity(seen, sample.fresh[held]).numpy()
    intervals = {"cosine": mean_interval(cosine.astype(np.float64), least=-1.0)}
    # Without queries, held-out targets ask: their fresh vectors are as good as any new text's.
    asking = torch.from_numpy(sample.rows)[held][:ASKING] if asked.check is None else None
    queries = sample.fresh[held][:ASKING] if asked.check is None else asked.check
    known = sample.known()

    def pieces() -> Iterator[tuple[int, Float[Tensor, "m e"]]]:
        shown = known if keep_fresh else known.none
        return index_chunks(source, learned.corrector, shown, "validating")

    pairs = Pairs(seen, sample.fresh[held])
    intervals[f"overlap@{k}"], found = neighbour_overlap(
        queries, pieces, known.rows, known.fresh, pairs, k, asking=asking
    )
    if asked.qrels is not None and asked.rows is not None:  # only the queries are a sample here
        recall = measure(asked.qrels, asked.rows, found)["recall@10"]
        intervals["recall@10"] = mean_interval(recall)
    return intervals


def learn_and_validate(
    source: Source,
    sample: Sampled,
    asked: Asked,
    *,
    method: Method,
    hidden: int,
    k: int = 10,
    keep_fresh: bool = True,
    curve: bool = True,
    queries: Float[Tensor, "q e"] | None = None,
    scale: float = 20.0,
    seed: int = 0,
) -> tuple[Learned, dict[str, Interval], list[dict[str, Any]]]:
    """Fit on the sample, judge on what it holds out, and on smaller samples for the curve."""
    settings: dict[str, Any] = {"method": method, "hidden": hidden, "scale": scale, "seed": seed}
    taught = (~sample.held_out).nonzero()[0]
    generator = np.random.default_rng(seed)
    points = []
    for part in CURVE if curve else ():
        # The held-out targets stay the same, so that the points of the curve can be compared.
        some = generator.permutation(taught)[: round(part * len(taught))]
        smaller = sample.take(np.sort(np.concatenate([some, sample.held_out.nonzero()[0]])))
        fitted = learn(smaller.stale, smaller.fresh, smaller.held_out, queries, **settings)
        found = validate(source, fitted, smaller, asked, k=k, keep_fresh=keep_fresh)
        points.append({"embedded": len(smaller.rows), **as_json(found)})
    learned = learn(sample.stale, sample.fresh, sample.held_out, queries, **settings)
    found = validate(source, learned, sample, asked, k=k, keep_fresh=keep_fresh)
    points.append({"embedded": len(sample.rows), **as_json(found)})
    return learned, found, points
