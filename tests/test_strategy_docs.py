"""The tables of strategies in the documentation are those of the registry."""

from itertools import dropwhile, takewhile
from pathlib import Path

from scripts.strategy_table import rows

ROOT = Path(__file__).parents[1]


def test_the_table_of_the_page_is_as_the_strategies_are_declared() -> None:
    lines = (ROOT / "docs" / "strategies.md").read_text("utf-8").splitlines()
    table = dropwhile(lambda line: not line.startswith("| `--strategy` | negatives"), lines)
    shown = list(takewhile(lambda line: line.startswith("|"), table))[2:]
    first = ["|".join(line.split("|")[:4]) + "|" for line in shown if line.startswith("| `")]
    assert first == rows()
