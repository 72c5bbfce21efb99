"""The tables of strategies in the documentation are those of the registry."""

from pathlib import Path

from scripts.strategy_table import rows

ROOT = Path(__file__).parents[1]


def table(page: str) -> list[str]:
    """Return the rows of a page that begin with a strategy, cut after the third column."""
    names = {row.split("|")[1] for row in rows()}
    found = [line.split("|") for line in (ROOT / page).read_text("utf-8").splitlines()]
    kept = [cells for cells in found if len(cells) > 4 and cells[1] in names]
    return ["|".join(cells[:4]) + "|" for cells in kept]


def test_the_readme_lists_every_strategy_as_it_is_declared() -> None:
    assert table("README.md") == rows()


def test_the_page_of_strategies_lists_every_strategy_as_it_is_declared() -> None:
    assert table("docs/strategies.md")[-len(rows()) :] == rows()
