"""`unstale compare --reader R`: the flags of Algorithm 2 instead of Algorithm 1."""

from dataclasses import fields

from unstale.cli.options import CompareFlags, RagFlags
from unstale.declare import flag
from unstale.errors import InputError


def rag_flags(chosen: CompareFlags) -> RagFlags:
    """Take the flags that both jobs have, and those given as `--rag.NAME`."""
    known, own = {f.name for f in fields(RagFlags)}, {f.name for f in fields(chosen)}
    for name in chosen.rag:
        if name not in known:
            raise InputError(f"--rag: `unstale rag` has no {name}")
        if name in own or name == "retriever":
            use = "--model" if name == "retriever" else flag(name)
            raise InputError(f"--rag.{name}: use {use}")
    usual = CompareFlags()
    for name in own - known - {"model", "strategies", "seeds", "rag"}:
        if getattr(chosen, name) != getattr(usual, name):
            raise InputError(f"{flag(name)} has no effect with a --reader")
    given = {name: getattr(chosen, name) for name in own & known}
    shared = {name: value for name, value in given.items() if value is not None}
    return RagFlags(**{**shared, **chosen.rag, "retriever": chosen.model})
