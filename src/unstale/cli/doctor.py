"""`unstale doctor`: what stale negatives would cost you, from a short trial."""

import tempfile
import time
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from unstale.cli.encoder import open_encoder
from unstale.cli.options_inspect import DoctorFlags
from unstale.cli.output import run_folder
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.doctor.advice import HELD, Findings, advise
from unstale.doctor.trial import Trial, run_trial
from unstale.results import RESULTS
from unstale.training.settings import TrainSettings


def run(chosen: DoctorFlags) -> None:
    """Try, print what was found, and advise."""
    began = time.perf_counter()
    with run_folder("doctor", chosen) if chosen.output else nullcontext() as folder:
        dataset = load_dataset(chosen.data)
        trial = _try(chosen, dataset)
        seconds = time.perf_counter() - began
        said = advise(trial.findings)
        duplicates = int(dataset.counts["duplicate_texts"])
        _show(trial, len(dataset.targets), duplicates, seconds)
        print(said)
        if folder:
            found = asdict(trial.findings) | {"duplicate_texts": duplicates, "advice": said}
            output = folder.begin()
            folder.finish(trial.dataset.counts, trial.runs, doctor=found | {"seconds": seconds})
            print(f"results: {output / RESULTS}")


def _try(chosen: DoctorFlags, dataset: RetrievalDataset) -> Trial:
    names = "batch_size hard_negatives uniform_negatives learning_rate seed".split()
    settings = TrainSettings(**{name: getattr(chosen, name) for name in names})
    with tempfile.TemporaryDirectory(prefix="unstale-") as scratch:
        return run_trial(
            dataset,
            lambda: open_encoder(chosen),
            Path(scratch),
            settings,
            seconds=chosen.seconds,
            steps=chosen.steps,
            targets=chosen.targets,
        )


def _show(trial: Trial, targets: int, duplicates: int, seconds: float) -> None:
    found, steps = trial.findings, trial.runs[0].steps
    last = trial.runs[0].freshness[-1]
    drawn = len(trial.dataset.targets)
    title = f"{trial.dataset.name}: {steps:,} steps on {drawn:,} of {targets:,} targets"
    table = Table(box=box.SIMPLE, show_header=False, title=title, title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("drift", f"cosine {last['cosine_stale']:.3f} of stale and fresh embeddings")
    table.add_row(
        "a stale buffer loses", f"{_percent(found.lost)} of the true top 10 ({_when(found)})"
    )
    for one in found.tried:
        table.add_row(
            f"{one.strategy}, {one.units:,} units",
            f"recovers {_percent(found.recovered(one))} of that, at "
            f"{_milliseconds(one.step_seconds)} a step instead of "
            f"{_milliseconds(found.step_seconds)}",
        )
    table.add_row("embedding all again", f"{found.refresh_seconds:.1f} s for {drawn:,} targets")
    table.add_row(
        "mined negatives",
        f"{_percent(found.above)} score above the positive, {_percent(found.twins)} nearly repeat "
        f"it; {duplicates:,} targets have another's text, and are never mined beside it",
    )
    table.caption = f"{seconds:.0f} s; a longer training, or a higher learning rate, drifts further"
    Console().print(table)


def _when(found: Findings) -> str:
    if found.lost <= 1 - HELD:
        return f"and holds {_percent(HELD)} of it to the end"
    return f"and less than {_percent(HELD)} of it is left after {found.holds:.0f} steps"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"
