"""What does a comparison train, by its flags? Nothing heavy is imported."""

import re
from dataclasses import fields
from difflib import get_close_matches

from unstale.cli.options import CompareFlags, RagFlags
from unstale.declare import flag, parse_seeds
from unstale.errors import InputError
from unstale.strategies import described

USUAL = "in-batch,stale,corrected,exhaustive"


def check_strategy(name: str, *, rag: bool) -> None:
    """Refuse an unknown strategy; those of other packages are known by their names."""
    known = described(rag=rag)
    if name not in known:
        close = get_close_matches(name, known, 1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise InputError(f"unknown strategy {name!r}; choose from {', '.join(known)}{meant}")


def compared_cells(chosen: CompareFlags) -> list[tuple[str, int]]:
    """List (strategy, seed), seed by seed, so that an interrupted table is an even one.

    `stale` runs all seeds; `stale:1` only as many.
    """
    for name in ("strategy", "seed"):
        if getattr(chosen, name) != getattr(type(chosen), name):
            rule = "a comparison takes --strategies and --seeds, separated by commas"
            raise InputError(f"--{name} {getattr(chosen, name)}: {rule}")
    seeds = parse_seeds(chosen.seeds)
    counts: dict[str, int] = {}
    usual = "none,frozen,corrected,exhaustive" if chosen.reader else USUAL
    for word in (chosen.strategies or usual).split(","):
        name, _, count = word.strip().partition(":")
        check_strategy(name, rag=bool(chosen.reader))
        if name in counts:
            raise InputError(f"--strategies names {name} twice")
        if count and not (re.fullmatch("[0-9]+", count) and 1 <= int(count) <= len(seeds)):
            raise InputError(f"--strategies {word}: expected a number from 1 to {len(seeds)}")
        counts[name] = int(count or len(seeds))
    return [(name, seed) for i, seed in enumerate(seeds) for name, n in counts.items() if i < n]


def rag_flags(chosen: CompareFlags) -> RagFlags:
    """Take the flags of Algorithm 2 that a comparison has, and those given as `--rag.NAME`."""
    if not chosen.reader:
        raise InputError("--rag.* belong to a comparison with a --reader")
    known, own = {f.name for f in fields(RagFlags)}, {f.name for f in fields(chosen)}
    for name in chosen.rag:
        if name not in known and name not in vars(chosen.filters):
            raise InputError(f"--rag: `unstale rag` has no {name}")
        if name in own or name == "retriever" or name not in known:
            use = "--model" if name == "retriever" else flag(name)
            raise InputError(f"--rag.{name}: use {use}")
    usual = CompareFlags()
    for name in own - known - {"model", "strategies", "seeds", "rag"}:
        value, default = getattr(chosen, name), getattr(usual, name)
        if value != default and (value or default):  # a config file's empty list is no tuple
            raise InputError(f"{flag(name)} has no effect with a --reader")
    given = {name: getattr(chosen, name) for name in (own & known) - {"strategy"}}
    shared = {name: value for name, value in given.items() if value is not None}
    if not chosen.steps:  # whose default is of a training without a reader
        del shared["steps"]
    return RagFlags(**{**shared, **chosen.rag, "retriever": chosen.model})
