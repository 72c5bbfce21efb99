"""Train dense retrievers with hard negatives that are fresh at every step."""

__version__ = "0.1.0"
