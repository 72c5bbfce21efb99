"""Which strategies are there, in words? Help and early checks read this without torch."""

from importlib.metadata import EntryPoints, entry_points

# Ours, and where their negatives come from, in the order of the documentation. Each is declared in
# `miners/NAME.py`.
STRATEGIES = {
    "staged": "the other queries' positives at first (`--mine-from`), then also the cached "
    "embeddings seen through the corrector; targets are embedded in between",
    "corrected": "the paper's Algorithm 1: the cached embeddings seen through the corrector",
    "corrected-subset": "the same as corrected, over a random subset that changes: for a cache "
    "that does not fit in memory (with `--no-memory`)",
    "stale-rerank": "the best stale targets of each query, reranked by the corrector: for a cache "
    "that does not fit in memory (with `--no-memory`)",
    "stale": "the cached embeddings as they were before training",
    "stale-frozen": "the same as stale; the target encoder is not trained (needs separate towers)",
    "exhaustive": "the cached embeddings, re-embedded on a schedule (`--refreshes`)",
    "two-round": "the cached embeddings, re-embedded halfway through the run",
    "stochastic": "a random subset of the corpus, redrawn and re-embedded on the schedule "
    "(`--subset-size`)",
    "dynnibal": "the cached embeddings moved by a low-rank regression, which is refitted on a "
    "sample: our reconstruction",
    "auto-refresh": "the cached embeddings, re-embedded when the freshness meter finds them stale "
    "(`--refresh-below`)",
    "uniform": "the corpus, drawn at random",
    "in-batch": "the other queries' positives",
}
RAG_STRATEGIES = ("corrected", "stale", "exhaustive", "two-round")  # which `unstale rag` offers
# What only `unstale rag` has.
READER_ONLY = {"none": "no retrieval", "frozen": "the retriever is not trained"}


def announced() -> EntryPoints:
    """Find the strategies of other packages, without importing any."""
    return entry_points(group="unstale.strategies")


def described(*, rag: bool) -> dict[str, str]:
    """Say what every strategy of `train` or `rag` is; those of other packages have only names."""
    own = READER_ONLY | {name: STRATEGIES[name] for name in RAG_STRATEGIES} if rag else STRATEGIES
    return own | {entry.name: f"see {entry.value.partition(':')[0]}" for entry in announced()}
