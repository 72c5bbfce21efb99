"""`unstale answer`."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unstale.cli.options_rag import Answer
from unstale.cli.run_folder import finished_config, is_rag, open_asker, open_trained
from unstale.cli.search import shorten
from unstale.errors import InputError
from unstale.rag.load import load_questions


def run(chosen: Answer) -> None:
    """Retrieve for one question with a run's retriever, and answer with its reader."""
    folder = Path(chosen.run)
    if not chosen.question.strip():
        raise InputError("the question is empty")
    config = finished_config(folder)
    if not is_rag(folder):
        raise InputError(f"{folder} is not a finished run of `unstale rag`: it has no reader")
    dataset = load_questions(config["data"]).dataset
    said = open_asker(folder, config, open_trained(folder, config), dataset)(chosen.question)
    console = Console()
    console.print(Text(said.text or "(no answer)", style="bold"))
    if not len(said.rows):
        return
    table = Table(box=box.SIMPLE_HEAD, show_lines=True)
    table.add_column("P(y|x)", justify="right")
    table.add_column("id")
    table.add_column("target", ratio=1)
    rows = said.rows.numpy()
    for p, key, text in zip(
        said.probabilities.tolist(),
        dataset.target_ids.take(rows),
        dataset.targets.take(rows),
        strict=True,
    ):
        table.add_row(f"{p:.3f}", Text(key), Text(shorten(text, chosen.width)))
    console.print(table)
