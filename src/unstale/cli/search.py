"""`unstale search`."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int
from rich import box
from rich.table import Table

from unstale.cli.finished import FinishedRun
from unstale.cli.options_inspect import SearchFlags
from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_queries
from unstale.errors import InputError
from unstale.search.exact import Exact
from unstale.shown import console, shortened

_WIDTH = 300  # characters of a target to show


def run(chosen: SearchFlags) -> None:
    """Answer one query from a run's model and corpus."""
    finished = FinishedRun.open(chosen.run, trust_remote_code=chosen.trust_remote_code)
    dataset = finished.load_data()
    if chosen.k > len(dataset.targets):
        raise InputError(f"cannot show {chosen.k} of {len(dataset.targets)} targets")
    model = finished.load_trained()
    buffer = finished.open_index(model, dataset)
    best = Exact(buffer).top_k(embed_queries(model, [chosen.query]), chosen.k)
    scores = [f"{score:.3f}" for score in best.scores[0].tolist()]
    ranks = [str(rank) for rank in range(1, len(scores) + 1)]
    columns = {"rank": ranks, "score": scores}
    print_targets(dataset, best.rows[0].numpy(), columns, title=chosen.query)


def print_targets(
    dataset: RetrievalDataset,
    rows: Int[np.ndarray, " k"],
    columns: Mapping[str, Sequence[str]],
    title: str | None = None,
) -> None:
    """Print a table of targets, with columns of numbers before them."""
    table = Table(box=box.SIMPLE_HEAD, show_lines=True, title=title, title_justify="left")
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("id")
    table.add_column("target", ratio=1)
    found = zip(dataset.target_ids.take(rows), dataset.targets.take(rows), strict=True)
    for *numbers, (key, text) in zip(*columns.values(), found, strict=True):
        table.add_row(*numbers, key, shortened(text, _WIDTH))
    console().print(table)
