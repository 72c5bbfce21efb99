"""Print the table of strategies that docs/strategies.md shows, from the registry.

python -m scripts.strategy_table
"""

from unstale.miners import strategies


def rows() -> list[str]:
    """Return a row for each strategy: name, where its negatives come from, what it re-embeds."""
    return [f"| `{s.name}` | {s.negatives_from} | {s.reembeds} |" for s in strategies().values()]


if __name__ == "__main__":
    print("| `--strategy` | negatives come from | re-embeds |\n|---|---|---|", *rows(), sep="\n")
