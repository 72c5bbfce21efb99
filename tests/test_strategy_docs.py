"""The tables of strategies in the documentation are those of the registry."""

from itertools import dropwhile, takewhile
from pathlib import Path

import pytest
from scripts.strategy_table import rows

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["README.md", "docs/strategies.md"])
def test_the_table_of_a_page_is_as_the_strategies_are_declared(page: str) -> None:
    lines = (ROOT / page).read_text("utf-8").splitlines()
    table = dropwhile(lambda line: not line.startswith("| `--strategy` | negatives"), lines)
    shown = list(takewhile(lambda line: line.startswith("|"), table))[2:]
    first = ["|".join(line.split("|")[:4]) + "|" for line in shown if line.startswith("| `")]
    assert first == rows()
