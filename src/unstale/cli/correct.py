"""`unstale correct`."""

from pathlib import Path

from unstale.cli.config import place_of
from unstale.cli.encoder import open_encoder
from unstale.cli.options_inspect import CorrectFlags
from unstale.cli.output import run_folder
from unstale.data.load import load_dataset
from unstale.distributed import first_alone, rank, start
from unstale.errors import InputError
from unstale.files import atomic_file, write_json
from unstale.migration.job import Migrated, Migration
from unstale.migration.vectors import open_vectors
from unstale.migration.verdict import curve_table
from unstale.report.migration import curve_svg
from unstale.results import RESULTS

CURVE = "curve.svg"


def run(chosen: CorrectFlags) -> None:
    """Check everything, then migrate, write what was found, and print it."""
    _check_output(chosen)
    start(chosen.device)
    with run_folder("correct", chosen) as folder:
        if folder.finished:
            return
        if not chosen.vectors:
            raise InputError("--vectors is required: the old vectors")
        source = open_vectors(Path(chosen.vectors))
        with first_alone():
            dataset = load_dataset(chosen.data, progress=rank() == 0, judged=False)
        migration = Migration(source, dataset, lambda: open_encoder(chosen), chosen)
        output = folder.begin()
        done = migration.run(output)
        if rank() == 0:
            write_json(output / RESULTS, done.results)
            with atomic_file(output / CURVE) as temporary:
                temporary.write_text(curve_svg(done.results["curve"]), "utf-8")
        folder.seal()
    _show(done)
    print(f"vectors: {done.path}\nresults: {output / RESULTS}")


def _show(done: Migrated) -> None:
    for name, interval in done.validation.items():
        print(f"{name:>12}: {interval.value:.3f}  ({interval.low:.3f} to {interval.high:.3f})")
    cost = done.results["cost"]
    each = cost["seconds"]["embedding"] / cost["targets_embedded"]
    print(curve_table(done.results["curve"], done.results["vectors"]["rows"], each))
    print(done.results["verdict"]["text"])


def _check_output(chosen: CorrectFlags) -> None:
    for read in filter(None, (chosen.vectors, chosen.data)) if chosen.output else ():
        if Path(chosen.output).resolve().is_relative_to(place_of(read).resolve()):
            raise InputError(f"--output {chosen.output} lies in {read}, which is only read")
