"""What the help of `--strategy` says: one sentence for each strategy, from its declaration."""

from unstale.miners import strategies
from unstale.rag.check import rag_strategies


def strategy_help(*, rag: bool) -> str:
    """Describe the strategies of `unstale rag`, or of all other commands."""
    if not rag:
        said = [f"{s.name}: {s.negatives_from}." for s in strategies().values()]
    else:
        own = {"none": "no retrieval", "frozen": "the retriever is not trained"}
        said = [f"{n}: {own.get(n, s.negatives_from)}." for n, s in rag_strategies().items()]
    return " " + " ".join(said).replace("`", "")
