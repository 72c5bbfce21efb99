"""`unstale compare --reader R`: strategies of Algorithm 2 instead of Algorithm 1."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import final

from sentence_transformers import SentenceTransformer
from transformers import TrainingArguments

from unstale.cli import options
from unstale.cli.encoder import open_encoder
from unstale.cli.options_rag import Rag
from unstale.cli.rag import open_reader
from unstale.cli.train import check_trainer, warn
from unstale.data.dataset import RetrievalDataset
from unstale.declare import flag, taken_from
from unstale.errors import InputError
from unstale.rag.check import check_rag
from unstale.rag.job import train_rag_checked
from unstale.rag.load import load_questions
from unstale.rag.settings import RagSettings
from unstale.results import RunResult
from unstale.training.settings import Checked


@final
@dataclass(frozen=True)
class Start:
    """What all cells of a comparison begin with, and how to train one."""

    dataset: RetrievalDataset
    counts: dict[str, int | str]
    model: SentenceTransformer
    training: Callable[[str, int, Path], Callable[[Path, bool], RunResult]]


def prepare_rag(chosen: options.Compare, strategies: list[str]) -> Start:
    """Check everything for Algorithm 2."""
    flags = rag_flags(chosen)
    check_trainer(flags.trainer, TrainingArguments)
    questions = load_questions(chosen.data)
    model = open_encoder(flags)
    reader = open_reader(flags, questions, model)
    checked: dict[str, Checked[RagSettings]] = {}
    for strategy in strategies:
        settings = taken_from(RagSettings, replace(flags, strategy=strategy))
        known = next(iter(checked.values()), None)
        checked[strategy] = check_rag(settings, questions, model, reader, known)
    warn(taken_from(RagSettings, flags), [check.strategy for check in checked.values()])

    def train(strategy: str, seed: int, buffer: Path) -> Callable[[Path, bool], RunResult]:
        own = checked[strategy]
        own = replace(own, settings=replace(own.settings, seed=seed, buffer=buffer))

        def run(folder: Path, resume: bool) -> RunResult:
            retriever = open_encoder(flags, dropout=flags.dropout)
            reader = open_reader(replace(flags, seed=seed), questions, retriever)
            return train_rag_checked(questions, retriever, reader, folder, own, resume=resume)

        return run

    return Start(questions.dataset, questions.counts, model, train)


def rag_flags(chosen: options.Compare) -> Rag:
    """Take the flags that both jobs have, and those given as `--rag.NAME`."""
    known, own = {f.name for f in fields(Rag)}, {f.name for f in fields(chosen)}
    for name in chosen.rag:
        if name not in known:
            raise InputError(f"--rag: `unstale rag` has no {name}")
        if name in own or name == "retriever":
            use = "--model" if name == "retriever" else flag(name)
            raise InputError(f"--rag.{name}: use {use}")
    usual = options.Compare()
    for name in own - known - {"model", "strategies", "seeds", "rag"}:
        if getattr(chosen, name) != getattr(usual, name):
            raise InputError(f"{flag(name)} has no effect with a --reader")
    given = {name: getattr(chosen, name) for name in own & known}
    shared = {name: value for name, value in given.items() if value is not None}
    return Rag(**{**shared, **chosen.rag, "retriever": chosen.model})
