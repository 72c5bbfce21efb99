"""Train dense retrievers with hard negatives that are fresh at every step."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unstale.drop_in.fresh import FreshNegatives as FreshNegatives

__version__ = "0.1.0"
__all__ = ["FreshNegatives", "__version__"]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import what is public when it is asked for: torch takes seconds."""
    if name == "FreshNegatives":
        from unstale.drop_in.fresh import FreshNegatives

        return FreshNegatives
    raise AttributeError(f"module 'unstale' has no attribute {name!r}")
