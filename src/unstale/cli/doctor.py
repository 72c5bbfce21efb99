"""`unstale doctor`: what stale negatives would cost you, from a short trial."""

import tempfile
import time
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path

from unstale.cli.encoder import open_encoder
from unstale.cli.options_inspect import DoctorFlags
from unstale.cli.output import run_folder
from unstale.data.load import load_dataset
from unstale.doctor.advice import HELD, advise
from unstale.doctor.trial import Trial, run_trial
from unstale.results import RESULTS
from unstale.training.settings import TrainSettings


def run(chosen: DoctorFlags) -> None:
    """Try, print what was found, and advise."""
    began = time.perf_counter()
    with run_folder("doctor", chosen) if chosen.output else nullcontext() as folder:
        dataset = load_dataset(chosen.data, strict=chosen.strict)
        names = "batch_size hard_negatives uniform_negatives learning_rate seed".split()
        settings = TrainSettings(**{name: getattr(chosen, name) for name in names})
        limits = chosen.seconds, chosen.steps, chosen.targets
        with tempfile.TemporaryDirectory(prefix="unstale-") as scratch:
            encoder = partial(open_encoder, chosen)
            trial = run_trial(dataset, encoder, Path(scratch), settings, *limits)
        seconds = time.perf_counter() - began
        said = advise(trial.findings)
        _show(trial, len(dataset.targets), seconds)
        print(said)
        if folder:
            found = asdict(trial.findings) | {"advice": said, "seconds": seconds}
            output = folder.begin()
            folder.finish(trial.dataset.counts, trial.runs, doctor=found)
            print(f"results: {output / RESULTS}")


def _show(trial: Trial, targets: int, seconds: float) -> None:
    found, stale, drawn = trial.findings, trial.runs[0], len(trial.dataset.targets)
    held = f"it holds {HELD:.0%} of it to the end"
    if found.lost > 1 - HELD:
        held = f"less than {HELD:.0%} of it is left after {found.holds:.0f} steps"
    pace = 1000 * found.step_seconds
    rows = {
        "drift": f"cosine {stale.freshness[-1]['cosine_stale']:.3f} of stale and fresh embeddings",
        "a stale buffer loses": f"{found.lost:.0%} of the true top 10: {held}",
        **{
            one.strategy: f"recovers {found.recovered(one):.0%} of that, at "
            f"{1000 * one.step_seconds:.0f} ms a step instead of {pace:.0f} ms"
            for one in found.tried
        },
        "embedding all again": f"{found.refresh_seconds:.1f} s for {drawn:,} targets",
    }
    print(f"\n{trial.dataset.name}: {stale.steps:,} steps on {drawn:,} of {targets:,} targets")
    for name, text in rows.items():
        print(f"  {name:<{max(map(len, rows))}}  {text}")
    print(f"{seconds:.0f} s; a longer training, or a higher learning rate, drifts further\n")
