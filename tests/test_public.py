"""The public surface: its names import, are documented, and are all that examples need."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unstale

ROOT = Path(__file__).parents[1]
NAMESPACES = ("losses", "miners", "search")
OPEN = {"unstale", *(f"unstale.{name}" for name in NAMESPACES)}
NAMES = [name for name in unstale.__all__ if name not in (*NAMESPACES, "__version__")]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def documented() -> set[str]:
    """Return what docs/api.md shows the docstrings of."""
    return set(re.findall(r"(?m)^::: ([\w.]+)$", (ROOT / "docs" / "api.md").read_text()))


def code() -> list[tuple[str, str]]:
    """Return every Python block of the pages, and every example, by where it is."""
    blocks = [(str(path.relative_to(ROOT)), path.read_text()) for path in ROOT.glob("examples/*")]
    for path in PAGES:
        found = re.findall(r"(?ms)^```python[^\n]*\n(.*?)^```", path.read_text())
        blocks += [(f"{path.relative_to(ROOT)}, block {i}", b) for i, b in enumerate(found, 1)]
    return blocks


def too_deep(text: str) -> list[str]:
    """Return the modules of unstale that some code imports though they are not public."""
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    return [n for n in names if n.partition(".")[0] == "unstale" and n not in OPEN]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_imports_and_is_documented(name: str) -> None:
    assert getattr(unstale, name).__doc__
    assert f"unstale.{name}" in documented()


@pytest.mark.parametrize("name", NAMESPACES)
def test_a_namespace_imports_and_is_documented(name: str) -> None:
    space = getattr(unstale, name)
    promised = {f"unstale.{name}.{member}" for member in space.__all__}
    for member in space.__all__:
        assert getattr(space, member) is not None
    own = {n for n in promised if getattr(unstale, n.rpartition(".")[2], None) is None}
    assert own <= documented()


def test_nothing_else_is_promised() -> None:
    promised = {f"unstale.{name}" for name in NAMES}
    for name in NAMESPACES:
        promised |= {f"unstale.{name}.{member}" for member in getattr(unstale, name).__all__}
    # The sections that TrainSettings and RagSettings are made of, not to be imported.
    assert {n for n in documented() - promised if not n.startswith("unstale.settings.")} == set()


def test_the_list_is_complete_before_anything_is_imported() -> None:
    assert set(dir(unstale)) == set(unstale.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = unstale.nothing


def test_importing_unstale_does_not_wait_for_torch() -> None:
    program = "import sys, unstale; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_type_checkers_see_every_name() -> None:
    tree = ast.parse(Path(unstale.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for node in guarded.body for alias in node.names}
    assert seen == {*NAMES, *NAMESPACES}


def test_pages_and_examples_import_only_what_is_public() -> None:
    blocks = code()
    assert len(blocks) > 5
    wrong = {where: found for where, text in blocks if (found := too_deep(text))}
    assert not wrong
    assert too_deep("from unstale.training.job import train\nimport unstale.buffer.buffer") == [
        "unstale.training.job",
        "unstale.buffer.buffer",
    ]
