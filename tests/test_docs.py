"""The table of faults names tests that exist, and how each fault is injected."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def faults() -> list[list[str]]:
    """Read the rows of the table: fault, injection, what happens, tests."""
    text = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    table = text.partition("| Fault |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [line.strip().strip("|").split("|") for line in table if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows]


def test_every_fault_has_a_test_that_exists() -> None:
    rows = faults()
    assert len(rows) > 20
    for fault, happens, tests in rows:
        assert fault
        assert happens
        named = NAMED.findall(tests)
        assert named, fault
        for path, name in named:
            assert f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{fault}: {path}::{name}"
