"""`unstale doctor`: what stale negatives would cost you, from a short trial."""

import time
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial

from unstale.cli.encoder import open_encoder
from unstale.cli.options_inspect import DoctorFlags
from unstale.cli.output import run_folder
from unstale.data.load import load_dataset
from unstale.doctor.advice import HELD, advise
from unstale.doctor.trial import Trial, run_trial
from unstale.results import RESULTS
from unstale.shown import say
from unstale.training.settings import TrainSettings

_COMPARED = "--strategies in-batch,corrected-free"


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
        say(f"Whether mining pays at all: unstale compare --data {chosen.data} {_COMPARED}")
        if folder:
            found = asdict(trial.findings) | {"advice": said, "seconds": seconds}
            output = folder.begin()
            folder.finish(trial.dataset.counts, [], doctor=found)
            say(f"results: {output / RESULTS}")


def _show(trial: Trial, targets: int, seconds: float) -> None:
    found, drawn = trial.findings, len(trial.dataset.targets)
    held = f"it holds at least {HELD:.0%} of it to the end"
    if found.lost > 1 - HELD:
        held = f"less than {HELD:.0%} of it is left after {found.holds:.0f} steps"
    pace = f"{1000 * found.step_seconds:.0f} ms"
    if found.in_batch_seconds is not None:
        pace += f"; with in-batch negatives, without mining, {1000 * found.in_batch_seconds:.0f} ms"
    rows = {
        "drift": f"cosine {trial.cosine:.3f} of stale and fresh embeddings at the end",
        "a stale cache loses": f"{found.lost:.0%} of the true top 10: {held}",
        "correcting recovers": f"{found.recovered:.0%} of that",
        "a step takes": pace,
        "embedding all again": f"{found.refresh_seconds:.1f} s for {drawn:,} targets",
    }
    tried = (
        f"{found.steps:,} steps of {found.batch_size} queries on {drawn:,} of {targets:,} targets"
    )
    say(f"\n{trial.dataset.name}, --strategy corrected-free: {tried}")
    for name, text in rows.items():
        say(f"  {name:<{max(map(len, rows))}}  {text}")
    say(f"{seconds:.0f} s; a longer training, or a higher learning rate, drifts further\n")
