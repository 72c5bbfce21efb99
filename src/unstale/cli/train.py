"""`unstale train`."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, final

from sentence_transformers import SentenceTransformer

from unstale.cli.options import RagFlags, TrainFlags
from unstale.cli.output import run_folder
from unstale.cli.read import open_encoder, read_data
from unstale.data.dataset import RetrievalDataset
from unstale.data.holdout import hold_out
from unstale.declare import taken_from
from unstale.distributed import first_alone, rank, start
from unstale.encoders.load import hash_weights
from unstale.encoders.tokenise import target_tokens
from unstale.evaluation.evaluator import Evaluator
from unstale.miners.strategy import Strategy, find_strategy, strategies
from unstale.report.table import print_found, print_runs, title_of
from unstale.results import RESULTS, RunResult
from unstale.settings import MiningSettings
from unstale.shown import say
from unstale.strategies import SCHEDULE
from unstale.training.arguments import check_arguments
from unstale.training.identity import Identity, made_of
from unstale.training.job import train_checked
from unstale.training.settings import Checked, TrainSettings, without_effect

F = TypeVar("F", TrainFlags, RagFlags)
_LOG = logging.getLogger(__name__)


@final
@dataclass(frozen=True)
class Start:
    """What trainings on the same data begin with, checked."""

    dataset: RetrievalDataset
    counts: dict[str, int | str]  # what results.json says of the data
    models: tuple[Any, ...]  # the encoder, and the reader if there is one, as they were checked
    checked: Mapping[str, Checked[Any]]  # the settings with each strategy
    load: Callable[[int], tuple[Any, ...]]  # loads such models anew, for a seed
    identity: Callable[[Checked[Any]], Identity]  # of a run with such settings, before it is run
    # Trains models with settings in a folder, anew or resumed.
    train: Callable[[Checked[Any], tuple[Any, ...], Path, bool], RunResult]
    # Measures the model as it was named before training, if only a part of it is trained.
    measure_whole: Callable[[], Mapping[str, float] | None] = lambda: None


def run(chosen: TrainFlags) -> None:
    """Check everything, train, and write the results."""
    output = run_training("train", chosen, prepare_train)
    if output and rank() == 0:
        say(f"model:   {output / 'model'}\nresults: {output / RESULTS}")
        say(f"search:  unstale search 'QUERY' --run {output}")


def run_training(
    command: str, chosen: F, prepare: Callable[[F, Sequence[str]], Start]
) -> Path | None:
    """Train with one strategy, print a table, and return the folder, if anything was left to do."""
    start(chosen.device)
    with run_folder(command, chosen) as folder:
        if folder.finished:
            return None
        ready = prepare(chosen, [chosen.strategy])
        output = folder.begin()
        result = ready.train(ready.checked[chosen.strategy], ready.models, output, chosen.resume)
        result = replace(result, full_metrics=ready.measure_whole())
        folder.finish(ready.counts, [result])
    if rank() == 0:
        print_found(result)
        print_runs([result], title=title_of(ready.dataset, chosen.eval_split))
        if command == "train" and result.retriever_step == 0:
            say("the saved model is the one before training: no later weights rank dev better")
    return output


def prepare_train(chosen: TrainFlags, names: Sequence[str]) -> Start:
    """Check everything for Algorithm 1, with each of some strategies."""
    check_arguments(chosen.trainer)
    for name in names:
        find_strategy(name)
    dataset = read_data(chosen.data, strict=chosen.strict)
    dataset = hold_out(
        dataset, chosen.eval_split, chosen.holdout, dev=chosen.guard, progress=rank() == 0
    )

    def load(_: int) -> tuple[SentenceTransformer]:
        return (open_encoder(chosen, dropout=chosen.dropout, tf32=chosen.trainer.get("tf32")),)

    def train(own: Checked[Any], models: tuple[Any, ...], folder: Path, resume: bool) -> RunResult:
        return train_checked(dataset, models[0], folder, own, resume=resume)

    models = load(chosen.seed)
    weights = hash_weights(models[0].state_dict())
    settings = taken_from(TrainSettings, chosen)
    checked = check_each(
        names, strategies(), settings, lambda s, first: s.check(dataset, *models, first)
    )

    def identity(own: Checked[Any]) -> Identity:
        return made_of(dataset, weights, own.settings)

    whole = partial(_measure_whole, chosen, dataset)
    return Start(dataset, dataset.counts, models, checked, load, identity, train, whole)


def _measure_whole(chosen: TrainFlags, dataset: RetrievalDataset) -> Mapping[str, float] | None:
    """Measure the model with all its layers and lengths, if the flags cut some of them.

    What was cut is worse at the start, and would make the gain of a training look larger.
    """
    cut = (chosen.layers, chosen.query_max_length, chosen.target_max_length)
    if all(value is None for value in cut) or not chosen.measure_whole:
        return None
    count, way = f"{len(dataset.targets):,} targets", "--no-measure-whole skips this"
    say(f"measuring {chosen.model} with nothing cut, on {count}; {way}", flush=True)
    flags = replace(chosen, layers=None, query_max_length=None, target_max_length=None)
    model = open_encoder(flags)
    with first_alone():
        tokens = target_tokens(model, dataset, progress=rank() == 0)
    return Evaluator(dataset, chosen.eval_split, tokens, progress=rank() == 0)(model)


def check_each(
    names: Sequence[str],
    known: Mapping[str, Strategy],
    settings: MiningSettings,
    check: Callable[[Any, Checked[Any] | None], Checked[Any]],
) -> dict[str, Checked[Any]]:
    """Check the settings with each strategy; what the first check found out serves the others."""
    checked: dict[str, Checked[Any]] = {}
    for name in names:
        first = next(iter(checked.values()), None)
        checked[name] = check(replace(settings, strategy=name), first)
    warn(settings, {name: each.strategy for name, each in checked.items()}, known)
    return checked


def warn(
    settings: MiningSettings, chosen: Mapping[str, Strategy], known: Mapping[str, Strategy]
) -> None:
    """Say which flags have no effect, and which refresh comes too late to teach anything."""
    if rank() > 0:
        return
    for said in without_effect(settings, chosen, known):
        _LOG.warning(said)
    scheduled = any(set(SCHEDULE) & set(strategy.reads) for strategy in chosen.values())
    overridden = settings.refresh_every or settings.refresh_schedule
    if scheduled and settings.refreshes == 1 and not overridden:
        _LOG.warning("--refreshes 1: the only one comes after the last step, and trains nothing")
