"""Every command in the docs could be typed, and every name, message and link in them exists."""

import ast
import re
import subprocess
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from scripts.check_command import check
from scripts.documented import Command, commands, inline_commands, pages
from scripts.run_docs import SHORTER, SKIPPED, reason_to_skip, shorten

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "unstale"


def test_every_command_could_be_typed() -> None:
    found = [*commands(), *inline_commands()]
    assert len(found) > 100
    wrong = []
    for command in found:
        try:
            check(command)
        except ValueError as error:
            wrong.append(f"{command}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("unstale train --no-such-flag 1", "no-such-flag"),
        ("unstale train --steps many", "steps"),
        ("unstale teach", "command teach"),
        ("python experiments/subset.py --no-such-flag", "flag --no-such-flag"),
        ("python experiments/nq.py --data D --no-such-flag 3", "no-such-flag"),
        ("python benchmarks/none.py", "benchmarks/none.py"),
        ("torchrun --nproc-per-node 8 -m unstale.cli.main train --no-such-flag 1", "no-such-flag"),
        ("make nothing", "target nothing"),
        ("pip install unstale[nothing]", "extra nothing"),
    ],
)
def test_what_could_not_be_typed_is_told(line: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        check(Command("page.md", 1, tuple(line.split())))


@pytest.mark.parametrize(
    ("line", "run"),
    [
        (
            "unstale embed --data docstrings --output old",
            "unstale embed --data small-docstrings --output old",
        ),
        (
            "unstale rag --data facts --steps 400 --save-steps 500",
            "unstale rag --data facts --steps 2 --save-steps 2 --batch-size 4 --eval-questions 4 "
            "--probe-targets 32",
        ),
        (
            "unstale experiment toy-circle --output runs/toy",
            "unstale experiment toy-circle --output runs/toy --set.epochs 5",
        ),
        ("unstale train --resume --output RUN", "unstale train --resume --output RUN"),
        ("make demo", "unstale demo --output runs/demo --steps 3"),
        ("python experiments/nq.py --data D", "python experiments/nq.py --data D --dry-run"),
    ],
)
def test_a_command_is_run_as_it_is_but_shorter(line: str, run: str) -> None:
    assert shorten(line.split()) == run.split()


def test_the_tables_of_what_is_shortened_and_skipped_are_needed() -> None:
    words = {word for command in commands() for word in command.words}
    assert words >= SKIPPED.keys()
    assert words | {"demo"} >= SHORTER.keys()
    assert sum(reason_to_skip(c) is None for c in commands()) > 50


def test_make_bench_runs_every_benchmark_with_flags_that_it_has() -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "bench"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    lines = [line.partition(" benchmarks/") for line in shown.splitlines()]
    runs = [f"benchmarks/{words}".split() for _, found, words in lines if found]
    for words in runs:
        check(Command("Makefile", 1, ("python", *words)))
        assert "required=True" not in (ROOT / words[0]).read_text("utf-8")
    assert [words[0] for words in runs] == sorted(
        path.relative_to(ROOT).as_posix() for path in (ROOT / "benchmarks").glob("*.py")
    )


def test_code_named_beside_an_equation_exists() -> None:
    text = (ROOT / "docs" / "how-it-works.md").read_text("utf-8")
    named = re.findall(r"`([\w/]+\.py)::([\w.]+)`", text)
    assert len(named) > 25
    for path, name in named:
        place = ROOT if path.startswith("experiments/") else SRC
        assert name in defined(place / path), f"{path} has no {name}"


def test_every_message_of_the_troubleshooting_can_be_said() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    firsts = re.findall(r"^\| (`.*?) \| ", text, re.MULTILINE)
    quoted = [
        m[1]
        for cell in firsts
        for m in re.findall(r"(``? ?)(.+?)(?: ?\1)", cell.replace("`` ", "``"))
    ]
    assert len(quoted) > 20  # the pattern finds them
    said = messages()
    for message in quoted:
        for fragment in filter(None, (part.strip(" ,;:.") for part in message.split("…"))):
            assert any(fragment in sentence for sentence in said), f"{message}: {fragment!r}"


def test_links_outside_of_the_site_lead_to_files() -> None:
    for page in (*ROOT.glob("*.md"), *(ROOT / "benchmarks").glob("*.md")):
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_strategy_has_its_line() -> None:
    from unstale.miners import strategies

    text = (ROOT / "docs" / "strategies.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \| ", text, re.MULTILINE)) >= strategies().keys()


def test_every_page_is_read() -> None:
    assert {page for page in pages() if page.name != "README.md"} == set(
        (ROOT / "docs").rglob("*.md")
    )


@cache
def defined(path: Path) -> set[str]:
    """List functions and classes of a file, and methods as `Class.method`."""
    names = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (n for n in node.body if isinstance(n, ast.FunctionDef))
            names |= {f"{node.name}.{n.name}" for n in inner}
    return names


def messages() -> set[str]:
    """List every piece of text in the source between two values that are filled in."""
    paths = chain(SRC.rglob("*.py"), (ROOT / "experiments").rglob("*.py"))
    trees = (ast.parse(path.read_text("utf-8")) for path in paths)
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
