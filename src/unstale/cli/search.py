"""`unstale search`."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unstale.cli import options
from unstale.cli.run_folder import finished_config, open_index, open_trained
from unstale.data.load import load_dataset
from unstale.encoders.embed import embed_queries
from unstale.errors import InputError
from unstale.search.exact import Exact


def run(chosen: options.Search) -> None:
    """Answer one query from a run's model and corpus."""
    folder = Path(chosen.run)
    if not chosen.query.strip():
        raise InputError("the query is empty")
    config = finished_config(folder)
    dataset = load_dataset(config["data"])
    if not 1 <= chosen.k <= len(dataset.targets):
        raise InputError(f"cannot show {chosen.k} of {len(dataset.targets)} targets")
    model = open_trained(folder, config)
    buffer = open_index(folder, model, dataset)
    best = Exact(buffer).top_k(embed_queries(model, [chosen.query]), chosen.k)
    table = Table(box=box.SIMPLE_HEAD, show_lines=True, title=chosen.query, title_justify="left")
    for name in ("rank", "score", "id"):
        table.add_column(name, justify="right" if name != "id" else "left")
    table.add_column("target", ratio=1)
    rows = best.rows[0].numpy()
    for rank, (score, key, text) in enumerate(
        zip(
            best.scores[0].tolist(),
            dataset.target_ids.take(rows),
            dataset.targets.take(rows),
            strict=True,
        ),
        1,
    ):
        table.add_row(str(rank), f"{score:.3f}", Text(key), Text(shorten(text, chosen.width)))
    Console().print(table)


def shorten(text: str, width: int) -> str:
    """Cut a long target, and show control characters instead of obeying them."""
    shown = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"
