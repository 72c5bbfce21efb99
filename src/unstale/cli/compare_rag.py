"""`unstale compare --reader R`: strategies of Algorithm 2 instead of Algorithm 1."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, final

from sentence_transformers import SentenceTransformer

from unstale.cli import options
from unstale.cli.encoder import open_encoder
from unstale.cli.options_rag import Rag
from unstale.cli.rag import check_rag_flags, open_reader, rag_settings
from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError
from unstale.rag.job import train_rag
from unstale.rag.load import load_questions


@final
@dataclass(frozen=True)
class Start:
    """What all cells of a comparison begin with, and how to train one."""

    dataset: RetrievalDataset
    counts: dict[str, int | str]
    model: SentenceTransformer
    training: Callable[[str, int, Path], Callable[[Path, bool], dict[str, Any]]]


def prepare_rag(chosen: options.Compare, strategies: list[str]) -> Start:
    """Check everything for Algorithm 2."""
    flags = rag_flags(chosen)
    questions = load_questions(chosen.data)
    model = open_encoder(flags)
    reader = open_reader(flags, questions, model)
    for strategy in strategies:
        check_rag_flags(questions, model, reader, replace(flags, strategy=strategy))

    def train(strategy: str, seed: int, buffer: Path) -> Callable[[Path, bool], dict[str, Any]]:
        own = replace(flags, strategy=strategy, seed=seed, buffer=str(buffer))

        def run(folder: Path, resume: bool) -> dict[str, Any]:
            retriever = open_encoder(own, dropout=own.dropout)
            settings = rag_settings(own) | {"resume": resume}
            reader = open_reader(own, questions, retriever)
            return train_rag(questions, retriever, reader, folder, **settings)

        return run

    return Start(questions.dataset, questions.counts, model, train)


def rag_flags(chosen: options.Compare) -> Rag:
    """Take the flags that both jobs have, and those given as `--rag.NAME`.

    A shared flag that still has the default of `unstale compare` takes that of `unstale rag`.
    """
    known = {f.name for f in fields(Rag)}
    if unknown := sorted(set(chosen.rag) - known):
        raise InputError(f"--rag: `unstale rag` has no {', '.join(unknown)}")
    usual = options.Compare()
    given = {
        f.name: getattr(chosen, f.name)
        for f in fields(chosen)
        if f.name in known and getattr(chosen, f.name) != getattr(usual, f.name)
    }
    named = {"retriever": chosen.model, "reader": str(chosen.reader), "data": chosen.data}
    return Rag(**{**given, **named, **chosen.rag})
