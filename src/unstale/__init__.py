"""Train dense retrievers with hard negatives that are fresh at every step."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unstale.data.load import load_dataset as load_dataset
    from unstale.drop_in.fresh import FreshNegatives as FreshNegatives
    from unstale.encoders.load import load_encoder as load_encoder
    from unstale.migration.job import migrate as migrate
    from unstale.migration.settings import MigrateSettings as MigrateSettings

__version__ = "0.1.0"
__all__ = [
    "FreshNegatives",
    "MigrateSettings",
    "__version__",
    "load_dataset",
    "load_encoder",
    "migrate",
]
_MODULES = {
    "FreshNegatives": "unstale.drop_in.fresh",
    "MigrateSettings": "unstale.migration.settings",
    "load_dataset": "unstale.data.load",
    "load_encoder": "unstale.encoders.load",
    "migrate": "unstale.migration.job",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import what is public when it is asked for: torch takes seconds."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'unstale' has no attribute {name!r}")
