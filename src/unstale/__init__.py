"""Train dense retrievers with hard negatives that are fresh at every step.

Everything in `__all__` is public and documented in docs/api.md; all else may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unstale import losses as losses
    from unstale import miners as miners
    from unstale import search as search
    from unstale.buffer.buffer import TargetBuffer as TargetBuffer
    from unstale.corrector.network import Corrector as Corrector
    from unstale.data.dataset import RetrievalDataset as RetrievalDataset
    from unstale.data.load import load_dataset as load_dataset
    from unstale.drop_in.fresh import FreshNegatives as FreshNegatives
    from unstale.encoders.load import load_encoder as load_encoder
    from unstale.filters import Filters as Filters
    from unstale.jobs import Hit as Hit
    from unstale.jobs import Index as Index
    from unstale.jobs import evaluate as evaluate
    from unstale.jobs import train as train
    from unstale.migration.adapter import QueryAdapter as QueryAdapter
    from unstale.migration.job import migrate as migrate
    from unstale.migration.joined import JoinedQueries as JoinedQueries
    from unstale.migration.on_read import FreshVectors as FreshVectors
    from unstale.migration.on_read import ReadThrough as ReadThrough
    from unstale.migration.settings import MigrateSettings as MigrateSettings
    from unstale.rag.job import train_rag as train_rag
    from unstale.rag.load import load_questions as load_questions
    from unstale.rag.load_reader import load_reader as load_reader
    from unstale.rag.settings import RagSettings as RagSettings
    from unstale.rag.tiny_reader import tiny_reader as tiny_reader
    from unstale.results import RunResult as RunResult
    from unstale.training.settings import TrainSettings as TrainSettings

__version__ = "0.1.0"
_HOMES = {
    "Corrector": "unstale.corrector.network",
    "Filters": "unstale.filters",
    "FreshNegatives": "unstale.drop_in.fresh",
    "FreshVectors": "unstale.migration.on_read",
    "Hit": "unstale.jobs",
    "Index": "unstale.jobs",
    "JoinedQueries": "unstale.migration.joined",
    "MigrateSettings": "unstale.migration.settings",
    "QueryAdapter": "unstale.migration.adapter",
    "ReadThrough": "unstale.migration.on_read",
    "RagSettings": "unstale.rag.settings",
    "RetrievalDataset": "unstale.data.dataset",
    "RunResult": "unstale.results",
    "TargetBuffer": "unstale.buffer.buffer",
    "TrainSettings": "unstale.training.settings",
    "evaluate": "unstale.jobs",
    "load_dataset": "unstale.data.load",
    "load_encoder": "unstale.encoders.load",
    "load_questions": "unstale.rag.load",
    "load_reader": "unstale.rag.load_reader",
    "migrate": "unstale.migration.job",
    "tiny_reader": "unstale.rag.tiny_reader",
    "train": "unstale.jobs",
    "train_rag": "unstale.rag.job",
}
_NAMESPACES = ("losses", "miners", "search")
__all__ = ["__version__", *_NAMESPACES, *_HOMES]  # noqa: PLE0604 - strings, all of them


if not TYPE_CHECKING:  # which would take any name for one of ours

    def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is public
        """Import what is public when it is first used: importing torch takes seconds."""
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        if name in _NAMESPACES:
            return import_module(f"unstale.{name}")
        raise AttributeError(f"module 'unstale' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what is public, imported or not."""
    return sorted(__all__)
