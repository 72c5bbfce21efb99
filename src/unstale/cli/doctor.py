"""`unstale doctor`: do hard negatives pay on your data? A short trial tells."""

import time
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial

from unstale.cli.options_inspect import DoctorFlags
from unstale.cli.output import run_folder
from unstale.cli.read import open_encoder
from unstale.data.load import load_dataset
from unstale.doctor.advice import advise
from unstale.doctor.trial import Trial, run_trial
from unstale.results import RESULTS
from unstale.shown import say
from unstale.training.settings import TrainSettings

_COMPARED = "--strategies in-batch,staged --seeds 0,1,2 --output runs/compared"


def run(chosen: DoctorFlags) -> None:
    """Try, print what was found, and advise."""
    began = time.perf_counter()
    with run_folder("doctor", chosen) if chosen.output else nullcontext() as folder:
        dataset = load_dataset(chosen.data, strict=chosen.strict)
        names = "batch_size learning_rate seed".split()
        settings = TrainSettings(**{name: getattr(chosen, name) for name in names})
        limits = chosen.seconds, chosen.steps, chosen.targets
        trial = run_trial(dataset, partial(open_encoder, chosen), settings, *limits)
        seconds = time.perf_counter() - began
        said = advise(trial.findings)
        _show(trial, len(dataset.targets), seconds)
        say(said)
        what = f"--data {chosen.data} --model {chosen.model}"
        say(f"To be sure, train to the end: unstale compare {what} {_COMPARED}")
        if folder:
            found = asdict(trial.findings) | {"advice": said, "seconds": seconds}
            output = folder.begin()
            folder.finish(trial.dataset.counts, [], doctor=found)
            say(f"results: {output / RESULTS}")


def _show(trial: Trial, targets: int, seconds: float) -> None:
    found, drawn = trial.findings, len(trial.dataset.targets)
    tried = f"batches of {found.batch_size} on {drawn:,} of {targets:,} targets"
    say(f"\n{trial.dataset.name}: {tried}, {found.queries} queries held out")
    say(f"  before training   nDCG@10 {100 * found.before:.1f}%")
    for one in (found.in_batch, found.default):
        took = f"{one.steps:,} steps in {one.seconds:.1f} s"
        say(f"  {one.strategy:<16}  nDCG@10 {100 * one.ndcg:.1f}%  {took}")
    say(f"{seconds:.0f} s\n")
