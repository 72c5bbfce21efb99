"""Nothing that comes out of a file or a query is obeyed by the terminal, or taken for markup."""

import ast
import logging
from pathlib import Path

import numpy as np
import pytest
import rich.table

import unstale
from unstale.cli.main import main
from unstale.cli.search import print_targets
from unstale.data.dataset import RetrievalDataset, Texts
from unstale.report.escape import escape
from unstale.shown import console, say, show_logs, shown

NASTY = ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\r", "\x08", "a\u202eb", "\x00", "\ud800"]
MARKUP = ["[/foo] bar", "a [b] c", "[bold]x[/bold]", "[link=http://x]y[/link]", ":warning:"]


@pytest.mark.parametrize("text", NASTY)
def test_what_a_terminal_obeys_is_shown(text: str) -> None:
    seen = shown(f"<{text}>")
    assert seen.isprintable()
    assert "[U+" in seen
    assert escape(text) == seen[1:-1]


def test_layout_and_scripts_stay() -> None:
    kept = "line\n\ttab \u0645\u06cc\u200c\u062e\u0648\u0627 \U0001f469\u200d\U0001f680"
    assert shown(kept) == kept


@pytest.mark.parametrize("text", [*MARKUP, *NASTY[:-1]])
def test_a_search_shows_any_query_and_any_id(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    texts = Texts.of([f"{text} target"])
    data = RetrievalDataset("x", Texts.of([text]), texts, texts, texts, {})
    print_targets(data, np.array([0]), {"rank": ["1"]}, title=text)
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert out.count(shown(text)) == 3  # the title, the id and the target


def test_a_search_cuts_a_long_target(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    texts = Texts.of(["y" * 300, "x" * 301])
    data = RetrievalDataset("d", Texts.of(["1", "2"]), texts, texts, texts, {})
    print_targets(data, np.array([0, 1]), {"rank": ["1", "2"]})
    shown_texts = capsys.readouterr().out
    assert "y" * 300 in shown_texts
    assert "x" * 299 + "…" in shown_texts
    assert "x" * 300 not in shown_texts


def test_tables_lines_and_logs_pass_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rich.table.Table(title="\x1b[1m[red]", caption="\x1b")
    table.add_column("\x1b")
    table.add_row("\x1b[x]")
    console(80).print(table)
    say("\x1b[2J[b]")
    monkeypatch.setattr(logging.lastResort, "formatter", None)
    show_logs()
    record = logging.LogRecord("x", logging.WARNING, "", 0, "%s", ("\x1b[2J",), None)
    assert logging.lastResort is not None
    assert logging.lastResort.format(record) == "[U+001B][2J"
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[x]" in out
    assert "[b]" in out


def test_errors_pass_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "a\x1b[2Jb")]) == 2
    assert "a[U+001B][2Jb" in capsys.readouterr().err


def test_nothing_prints_in_another_way() -> None:
    # `print` itself is refused by ruff (T20).
    for path in Path(unstale.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            other = name in ("stdout", "stderr") or called in ("Console", "print")
            assert not other or path.name == "shown.py", f"{path}: {ast.unparse(node)}"
