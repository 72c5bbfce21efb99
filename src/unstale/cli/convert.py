"""`unstale convert`."""

from unstale.cli.options import ConvertFlags
from unstale.cli.output import run_folder
from unstale.data.formats import find_format
from unstale.data.load import load_dataset
from unstale.errors import InputError
from unstale.shown import say


def run(chosen: ConvertFlags) -> None:
    """Read a dataset in whatever format it is, and write it in another."""
    form = find_format(chosen.to)
    if form.write is None:
        raise InputError(f"{form.name} can be read, but not written")
    with run_folder("convert", chosen) as output:
        dataset = load_dataset(chosen.data)
        with output.at_once() as folder:
            form.write(dataset, folder)
    pairs = ", ".join(f"{len(q.pairs):,} in {split}" for split, q in dataset.qrels.items())
    say(f"{len(dataset.targets):,} targets, {len(dataset.queries):,} queries; pairs: {pairs}")
    if lost := form.loses(dataset):
        say(f"{form.name} cannot store: {', '.join(lost)}")
    say(f"{form.name}: {output.path}")
