"""`unstale correct`."""

from collections.abc import Callable
from pathlib import Path

from sentence_transformers import SentenceTransformer

from unstale.buffer.embed import Part, PartDone
from unstale.cli.options_inspect import CorrectFlags
from unstale.cli.output import run_folder
from unstale.cli.read import open_encoder, read_data
from unstale.data.dataset import Texts
from unstale.data.lines import text_lines
from unstale.distributed import on_first, rank, start
from unstale.encoders.load import load_encoder
from unstale.errors import InputError
from unstale.files import write_json
from unstale.integrity import SEAL
from unstale.migration.growth import growth_table
from unstale.migration.job import Migrated, Migration
from unstale.migration.stale import StaleVectors
from unstale.migration.stores.vectors import StoreVectors
from unstale.migration.vectors import open_vectors
from unstale.migration.verdict import curve_table, ways_table
from unstale.results import RESULTS
from unstale.shown import say

_WRITTEN = {"verdict": "verdict", "query-side": "adapter", "rewrite": "vectors"}


def run(chosen: CorrectFlags) -> None:
    """Check everything, then migrate, write what was found, and print it."""
    start(chosen.device)
    with run_folder("correct", chosen) as folder:
        if folder.finished:
            return
        source = open_vectors(chosen.vectors)
        if chosen.resume and _was_swapped(source, folder.path):  # but killed before it said so
            folder.begin()
            say(f"{source.path} serves the new vectors already: the swap was done")
            folder.seal()
            return
        store = _swapping(chosen, source)
        if chosen.ids is not None:
            source.ids = _read_ids(Path(chosen.ids), source.rows)
        dataset = read_data(chosen.data, judged=False)
        old = _old_encoder(chosen) if chosen.old_model else None
        part = Part.read(chosen.shard)
        migration = Migration(source, dataset, lambda: open_encoder(chosen), chosen, old, part)
        output = folder.begin()
        try:
            done = migration.run(output)
        except PartDone as said:
            say(str(said))
            return
        if rank() == 0:
            write_json(output / RESULTS, done.results)
        _show(done)
        say(f"{_WRITTEN[chosen.way]}: {done.path}\nresults: {output / RESULTS}")
        if store is not None:  # before the folder counts as finished: it may be refused
            say(on_first(lambda: store.swap(output)))
        folder.seal()


def _old_encoder(chosen: CorrectFlags) -> Callable[[], SentenceTransformer]:
    """Load the old encoder as it is: the flags of shape are about the new one."""
    return lambda: load_encoder(str(chosen.old_model), device=chosen.device)


def _read_ids(path: Path, rows: int) -> Texts:
    """Read an id a line."""
    ids = [line.rstrip("\r\n") for _, line in text_lines(path, progress=False)]
    if len(ids) != rows:
        raise InputError(f"--ids {path}: {len(ids)} lines, but there are {rows} vectors")
    return Texts.of(ids)


def _swapping(chosen: CorrectFlags, source: StaleVectors) -> StoreVectors | None:
    """Return the collection that is to be swapped, or refuse before any work."""
    if not chosen.swap:
        return None
    assert isinstance(source, StoreVectors)
    source.check_swap()
    return source


def _was_swapped(source: StaleVectors, folder: Path) -> bool:
    """Say whether an unfinished migration has nothing left to do but to seal its folder."""
    if not isinstance(source, StoreVectors) or (folder / SEAL).is_file():
        return False
    return source.was_swapped(folder)


def _show(done: Migrated) -> None:
    for name, interval in done.validation.items():
        say(f"{name:>12}: {interval.value:.3f}  ({interval.low:.3f} to {interval.high:.3f})")
    cost, vectors = done.results["cost"], done.results["vectors"]
    if vectors["added"] or vectors["deleted"]:
        came = f"{vectors['added']:,} rows were added and {vectors['deleted']:,} deleted"
        say(f"since the migration began or was last resumed, {came}: they were taken into account")
    each = cost["seconds"]["embedding"] / cost["targets_embedded"]
    say(curve_table(done.results["curve"], done.results["vectors"]["rows"], each))
    judged = done.results["verdict"]
    if "ways" in judged:
        say(ways_table(judged["ways"], done.results["queries"]["validate"]))
    if "growth" in judged:
        say(growth_table(judged["growth"]))
    say(judged["text"])
