"""Top-k over the cached embeddings, seen through a corrector: one protocol, several ways."""

from unstale.search.auto import Choice, choose, make_search
from unstale.search.best import TopK
from unstale.search.exact import Exact
from unstale.search.ivf import IVF
from unstale.search.rolling import Rolling
from unstale.search.search import Search
from unstale.search.vectors import Vectors

__all__ = [
    "IVF",
    "Choice",
    "Exact",
    "Rolling",
    "Search",
    "TopK",
    "Vectors",
    "choose",
    "make_search",
]
