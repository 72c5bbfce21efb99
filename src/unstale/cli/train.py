"""`unstale train`."""

import logging
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sentence_transformers import SentenceTransformerTrainingArguments
from transformers import TrainingArguments

from unstale.cli import options
from unstale.cli.encoder import open_encoder
from unstale.cli.output import run_folder
from unstale.data.load import load_dataset
from unstale.declare import taken_from
from unstale.distributed import first_alone, rank, start
from unstale.errors import InputError
from unstale.miners.strategy import SCHEDULE, Strategy, find_strategy
from unstale.report.table import print_runs
from unstale.results import RESULTS
from unstale.settings import MiningSettings
from unstale.training.job import train_checked
from unstale.training.settings import TrainSettings, without_effect

_LOG = logging.getLogger(__name__)
# What the trainer would do with checkpoints by itself, and the flag that does it well.
_OURS = {
    "max_steps": "--steps",
    "num_train_epochs": "--steps",
    "output_dir": "--output",
    "save_total_limit": "--keep-checkpoints",
}


def run(chosen: options.TrainFlags) -> None:
    """Check everything, train, and write the results."""
    start(chosen.device)
    check_trainer(chosen.trainer, SentenceTransformerTrainingArguments)
    with run_folder("train", chosen) as folder:
        if folder.finished:
            return
        strategy, settings = find_strategy(chosen.strategy), taken_from(TrainSettings, chosen)
        with first_alone():
            dataset = load_dataset(chosen.data, progress=rank() == 0)
        model = open_encoder(chosen, dropout=chosen.dropout)
        checked = settings.check(dataset, model)
        warn(settings, [strategy])
        output = folder.begin()
        result = train_checked(dataset, model, output, checked, resume=chosen.resume)
        folder.finish(dataset.counts, [result])
    if rank() == 0:
        print_runs([result], title=f"{dataset.name}, {chosen.eval_split} split, in percent")
        print(f"model:   {output / 'model'}\nresults: {output / RESULTS}")


def warn(settings: MiningSettings, strategies: Sequence[Strategy]) -> None:
    """Say which flags have no effect, and which refresh comes too late to teach anything."""
    if rank() > 0:
        return
    for said in without_effect(settings, [strategy.name for strategy in strategies]):
        _LOG.warning(said)
    scheduled = any(set(SCHEDULE) & set(strategy.reads) for strategy in strategies)
    if scheduled and settings.refreshes == 1 and not settings.refresh_every:
        _LOG.warning("--refreshes 1: the only one comes after the last step, and trains nothing")


def check_trainer(extra: dict[str, Any], arguments: type[TrainingArguments]) -> None:
    """Refuse what the Trainer's arguments do not have."""
    known = {f.name for f in fields(arguments)}
    if unknown := sorted(set(extra) - known):
        raise InputError(f"--trainer: {arguments.__name__} has no {', '.join(unknown)}")
    for key in sorted(set(extra) & set(_OURS)):
        raise InputError(f"--trainer.{key}: use {_OURS[key]}")
