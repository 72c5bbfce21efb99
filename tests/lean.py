"""What the libraries do again and again in a test run, done once."""

import gc
from functools import cache

import jinja2


def compile_templates_once() -> None:
    """Keep the compiled template of the model cards; each would take a tenth of a second."""
    jinja2.Environment.compile = cache(jinja2.Environment.compile)  # type: ignore[method-assign]


def freeze_imports() -> None:
    """Leave what is imported by now out of the collections, one of which each Trainer asks for.

    It would look through a million objects that stay, for a third of a second.
    """
    gc.collect()
    gc.freeze()
