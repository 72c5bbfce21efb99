"""`unstale train`."""

import logging
from collections.abc import Sequence
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers import TrainingArguments

from unstale.cli import options
from unstale.cli.encoder import open_encoder
from unstale.cli.options_filters import Filtering
from unstale.cli.options_rag import Rag
from unstale.cli.output import run_folder
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.distributed import first_alone, rank, start
from unstale.errors import InputError
from unstale.miners.filters import Filters
from unstale.report.table import print_runs
from unstale.results import RESULTS, RunResult
from unstale.training.job import train
from unstale.training.settings import check_settings, hidden_widths
from unstale.training.strategies import find_strategy

_LOG = logging.getLogger(__name__)
_REFRESHED = {"exhaustive", "stochastic"}  # as often as --refresh says
# What the trainer would do with checkpoints by itself, and the flag that does it well.
_OURS = {
    "max_steps": "--steps",
    "num_train_epochs": "--steps",
    "output_dir": "--output",
    "save_total_limit": "--keep-checkpoints",
}


def run(chosen: options.Train) -> None:
    """Check everything, train, and write the results."""
    start(chosen.device)
    check_trainer(chosen.trainer, SentenceTransformerTrainingArguments)
    with run_folder("train", chosen, needs=(chosen.data, chosen.model, chosen.buffer)) as folder:
        if folder.finished:
            return
        find_strategy(chosen.strategy)
        with first_alone():
            dataset = load_dataset(chosen.data, progress=rank() == 0)
        model = open_encoder(chosen, dropout=chosen.dropout)
        settings = check_flags(dataset, model, chosen)
        warn_of_refreshes(chosen, [chosen.strategy])
        output = folder.begin()
        result = RunResult.from_json(train(dataset, model, output, **settings), "the run")
        folder.finish(dataset.counts, [result])
    if rank() == 0:
        print_runs([result], title=f"{dataset.name}, {chosen.eval_split} split, in percent")
        print(f"model:   {output / 'model'}\nresults: {output / RESULTS}")


def check_flags(
    dataset: RetrievalDataset, model: SentenceTransformer, chosen: options.Train
) -> dict[str, Any]:
    """Refuse flags that cannot work, or return the arguments of `train`."""
    settings = training_settings(chosen)
    checked = signature(check_settings).parameters.keys() & settings.keys()
    check_settings(dataset, model, **{name: settings[name] for name in checked})
    return settings


def training_settings(chosen: options.Train) -> dict[str, Any]:
    """Return the arguments of `train`; flags have their names."""
    changes: dict[str, Any] = {"corrector_hidden": hidden_widths(chosen.corrector_hidden)}
    changes["buffer"] = Path(chosen.buffer) if chosen.buffer else None
    changes["filters"] = chosen_filters(chosen)
    names = signature(train).parameters.keys() & {f.name for f in fields(chosen)}
    return {name: getattr(chosen, name) for name in names - {"model", "output"}} | changes


def chosen_filters(chosen: Filtering) -> Filters:
    """Return the rules against false negatives that the flags name."""
    return Filters(**{f.name: getattr(chosen, f.name) for f in fields(Filters)})


def warn_of_refreshes(chosen: options.Train | Rag, strategies: Sequence[str]) -> None:
    """Say what a number of refreshes means, if it looks like one of steps between them."""
    times, steps = chosen.refresh, chosen.steps
    if rank() > 0 or not _REFRESHED & set(strategies):
        return
    if times == 1:
        _LOG.warning("--refresh 1: the only refresh comes after the last step, and trains nothing")
    elif isinstance(times, int) and times != type(chosen).refresh and 10 * times > steps:
        _LOG.warning(
            "--refresh %d means %d refreshes in %d steps; for one after every so many steps write "
            "--refresh 0-%d:%d",
            times, times, steps, steps, times,
        )  # fmt: skip


def check_trainer(extra: dict[str, Any], arguments: type[TrainingArguments]) -> None:
    """Refuse what the Trainer's arguments do not have."""
    known = {f.name for f in fields(arguments)}
    if unknown := sorted(set(extra) - known):
        raise InputError(f"--trainer: {arguments.__name__} has no {', '.join(unknown)}")
    for key in sorted(set(extra) & set(_OURS)):
        raise InputError(f"--trainer.{key}: use {_OURS[key]}")
