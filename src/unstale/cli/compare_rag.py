"""`unstale compare --reader R`: strategies of Algorithm 2 instead of Algorithm 1."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, final

from sentence_transformers import SentenceTransformer
from transformers import TrainingArguments

from unstale.cli.encoder import open_encoder
from unstale.cli.options import CompareFlags, RagFlags
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
from unstale.settings import MiningSettings
from unstale.training.settings import Checked

AnyChecked = Checked[Any]  # settings of Algorithm 1 or 2


@final
@dataclass(frozen=True)
class Start:
    """What all cells of a comparison begin with: the settings by strategy, and how to train."""

    dataset: RetrievalDataset
    counts: dict[str, int | str]
    model: SentenceTransformer
    checked: Mapping[str, AnyChecked]
    train: Callable[[AnyChecked, Path, bool], RunResult]


def prepare_rag(chosen: CompareFlags, strategies: list[str]) -> Start:
    """Check everything for Algorithm 2."""
    flags = rag_flags(chosen)
    check_trainer(flags.trainer, TrainingArguments)
    questions = load_questions(chosen.data)
    model = open_encoder(flags)
    reader = open_reader(flags, questions, model)

    def train(own: AnyChecked, folder: Path, resume: bool) -> RunResult:
        retriever = open_encoder(flags, dropout=flags.dropout)
        reader = open_reader(replace(flags, seed=own.settings.seed), questions, retriever)
        return train_rag_checked(questions, retriever, reader, folder, own, resume=resume)

    checked = check_each(
        strategies,
        taken_from(RagSettings, flags),
        lambda settings, known: check_rag(settings, questions, model, reader, known),
    )
    return Start(questions.dataset, questions.counts, model, checked, train)


def check_each(
    strategies: list[str],
    settings: MiningSettings,
    check: Callable[[Any, AnyChecked | None], AnyChecked],
) -> dict[str, AnyChecked]:
    """Check the settings with each strategy; what the first check found out serves the others."""
    checked: dict[str, AnyChecked] = {}
    for name in strategies:
        known = next(iter(checked.values()), None)
        checked[name] = check(replace(settings, strategy=name), known)
    warn(settings, [each.strategy for each in checked.values()])
    return checked


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
