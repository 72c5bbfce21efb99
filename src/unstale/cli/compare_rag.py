"""`unstale compare --reader R`: strategies of Algorithm 2 instead of Algorithm 1."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, final

from sentence_transformers import SentenceTransformer

from unstale.cli import options
from unstale.cli.encoder import open_encoder
from unstale.cli.options_rag import Rag
from unstale.cli.rag import check_rag_flags, open_reader, rag_settings, settle
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
    flags = settle(flags, model)
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
    """Take the flags that both jobs have, and those given as `--rag.NAME`."""
    known, own = {f.name for f in fields(Rag)}, {f.name for f in fields(chosen)}
    for name in chosen.rag:
        if name not in known:
            raise InputError(f"--rag: `unstale rag` has no {name}")
        if name in own or name == "retriever":
            flag = "--model" if name == "retriever" else f"--{name.replace('_', '-')}"
            raise InputError(f"--rag.{name}: use {flag}")
    usual = options.Compare()
    for name in own - known - {"model", "strategies", "seeds", "rag"}:
        if getattr(chosen, name) != getattr(usual, name):
            raise InputError(f"--{name.replace('_', '-')} means nothing with a --reader")
    given = {name: getattr(chosen, name) for name in own & known}
    shared = {name: value for name, value in given.items() if value is not None}
    return Rag(**{**shared, **chosen.rag, "retriever": chosen.model})
