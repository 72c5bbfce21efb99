"""Which strategies are there, and what does each need? Nothing heavy is imported."""

from dataclasses import dataclass
from importlib.metadata import EntryPoints, entry_points
from typing import Literal, NamedTuple, final

from unstale.settings import HIDDEN, CorrectorSettings

CORRECTOR = tuple(CorrectorSettings.__dataclass_fields__)
SCHEDULE = ("refreshes", "refresh_every", "refresh_schedule")


@final
class NegativeCounts(NamedTuple):
    """How many negatives of each kind a query gets."""

    hard: int = 4  # mined
    uniform: int = 1  # drawn uniformly


@dataclass(frozen=True)
class Traits:
    """What a strategy is and needs, for checks, help, documentation, planner and report.

    Args:
        name: The name that `--strategy` takes.
        negatives_from: Where its negatives come from, for help and documentation.
        reembeds: What it re-embeds during training, for the documentation.
        cache: What it does with the cached embeddings: `none` needs none, `memory` reads them,
            `disk` leaves them on disk, `rewritten` replaces them, `later` makes them on the way.
        reads: Settings that only some strategies read; others leave them without effect.
        negatives: How many negatives of each kind a query gets by default; with none of any kind,
            the settings that ask for some have no effect.
        mined_for: The share of a batch's queries that it mines for; all of them use the result.
        views_all: Whether it can show any target as it sees it, which false-negative filters,
            and the freshness meter need.
        searches_part: Whether it searches only a part of the corpus at a time.
        one_process: Whether it needs the whole buffer in one process.
        needs_steps: Whether it must know the length of the run.
        freezes_targets: Whether the target encoder is not trained.
        corrector_hidden: Units of its corrector by default; 0 is a linear one.
        adds_in_batch: Whether the loss over the batch's positives alone is added to that over all
            candidates.
        rag: Whether `unstale rag` offers it.
        planned: Whether `unstale plan` prices it.
        tone: Its colour in reports.
    """

    name: str
    negatives_from: str
    reembeds: str = "nothing"
    cache: Literal["none", "memory", "disk", "rewritten", "later"] = "memory"
    reads: tuple[str, ...] = ()
    negatives: NegativeCounts = NegativeCounts()
    mined_for: float = 1.0
    views_all: bool = True
    searches_part: bool = False
    one_process: bool = False
    needs_steps: bool = False
    freezes_targets: bool = False
    corrector_hidden: int = HIDDEN
    adds_in_batch: bool = False
    rag: bool = False
    planned: bool = False
    tone: Literal["stale", "corrected", "variant", "exhaustive", "other"] = "other"

    @property
    def caches(self) -> bool:
        """Tell whether it needs the corpus embedded."""
        return self.cache != "none"

    @property
    def corrects(self) -> bool:
        """Tell whether it trains a corrector."""
        return "corrector_hidden" in self.reads


# Ours, in the order of the documentation. The miner of each is in `miners/NAME.py`.
_OWN = (
    Traits(
        name="staged",
        negatives_from="the other queries' positives; after the share `--mine-from` of the steps "
        "also the cached embeddings seen through the corrector",
        cache="later",
        reads=("mine_from", "mine_among", "sampling", "search", *CORRECTOR),
        # One for every query of the batch, for a quarter of the searches.
        negatives=NegativeCounts(uniform=0),
        mined_for=0.25,
        # A cache that is embedded late drifts little, and a linear corrector is searched faster.
        corrector_hidden=0,
        adds_in_batch=True,
        planned=True,
        tone="corrected",
    ),
    Traits(
        name="corrected",
        negatives_from="the paper's Algorithm 1: the cached embeddings seen through the corrector",
        reads=("sampling", "search", *CORRECTOR),
        rag=True,
        planned=True,
        tone="corrected",
    ),
    Traits(
        name="corrected-subset",
        negatives_from="the same as corrected, but only a random part of the cache, redrawn during "
        "the run; for a cache that does not fit in memory (with `--no-memory`)",
        cache="disk",
        reads=("sampling", "subset_size", *CORRECTOR),
        searches_part=True,
        one_process=True,
        needs_steps=True,
        tone="variant",
    ),
    Traits(
        name="stale-rerank",
        negatives_from="the best stale targets of each query, reranked by the corrector; for a "
        "cache that does not fit in memory (with `--no-memory`)",
        cache="disk",
        reads=("sampling", "rerank_depth", *CORRECTOR),
        one_process=True,
        tone="variant",
    ),
    Traits(
        name="stale",
        negatives_from="the cached embeddings as they were before training",
        reads=("sampling",),
        rag=True,
        planned=True,
        tone="stale",
    ),
    Traits(
        name="stale-frozen",
        negatives_from="the same as stale; the target encoder is not trained "
        "(needs separate towers)",
        reads=("sampling",),
        freezes_targets=True,
    ),
    Traits(
        name="exhaustive",
        negatives_from="the cached embeddings, re-embedded on a schedule (`--refreshes`)",
        reembeds="the whole corpus, each time",
        cache="rewritten",
        reads=("sampling", *SCHEDULE),
        needs_steps=True,
        rag=True,
        planned=True,
        tone="exhaustive",
    ),
    Traits(
        name="two-round",
        negatives_from="the cached embeddings, re-embedded halfway through the run",
        reembeds="the whole corpus, once",
        cache="rewritten",
        reads=("sampling",),
        needs_steps=True,
        rag=True,
    ),
    Traits(
        name="stochastic",
        negatives_from="a random subset of the corpus, redrawn and re-embedded on the schedule "
        "(`--subset-size`)",
        reembeds="the subset, each time",
        reads=("sampling", *SCHEDULE, "subset_size"),
        views_all=False,
        searches_part=True,
        needs_steps=True,
    ),
    Traits(
        name="dynnibal",
        negatives_from="the cached embeddings moved by a low-rank regression, which is refitted on "
        "a sample (our reconstruction of the method)",
        reembeds="a sample each time, the whole corpus twice (`--full-refreshes`)",
        cache="rewritten",
        reads=("sampling", *SCHEDULE, "full_refreshes", "sample_size", "rank"),
        one_process=True,
        needs_steps=True,
    ),
    Traits(
        name="auto-refresh",
        negatives_from="the cached embeddings, re-embedded when the freshness meter finds them "
        "stale (`--refresh-below`)",
        reembeds="the whole corpus, when needed",
        cache="rewritten",
        reads=("sampling", "refresh_below"),
    ),
    Traits(
        name="uniform",
        negatives_from="the corpus, drawn at random",
        cache="none",
        views_all=False,
    ),
    Traits(
        name="in-batch",
        negatives_from="the other queries' positives",
        cache="none",
        negatives=NegativeCounts(0, 0),
        views_all=False,
        planned=True,
    ),
)
STRATEGIES = {traits.name: traits for traits in _OWN}
# What only `unstale rag` has: the strategy that stands for it, and what it is.
READER_ONLY = {
    "none": (STRATEGIES["in-batch"], "no retrieval"),
    "frozen": (STRATEGIES["stale"], "the retriever is not trained"),
}


def announced() -> EntryPoints:
    """Find the strategies of other packages, without importing any."""
    return entry_points(group="unstale.strategies")


def described(*, rag: bool) -> dict[str, str]:
    """Say what every strategy of `train` or `rag` is; those of other packages have only names."""
    own = {name: said for name, (_, said) in READER_ONLY.items()} if rag else {}
    own |= {name: s.negatives_from for name, s in STRATEGIES.items() if s.rag or not rag}
    return own | {entry.name: f"see {entry.value.partition(':')[0]}" for entry in announced()}


def find_traits(name: str, *, rag: bool) -> Traits | None:
    """Return the traits of one of our own strategies; another package's are not loaded."""
    return READER_ONLY[name][0] if rag and name in READER_ONLY else STRATEGIES.get(name)
