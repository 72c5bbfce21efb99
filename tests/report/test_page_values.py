"""Which values of results.json may a page be given, and what of them is shown?"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.report.pages import Reader, cells, read

from unstale.cli.main import main
from unstale.errors import InputError
from unstale.report.escape import escape
from unstale.report.page import build_page, write_page


def test_hostile_text_is_shown_not_obeyed(results: dict[str, Any], hostile: str) -> None:
    results["data"]["name"] = results["runs"][0]["strategy"] = hostile
    results["runs"][0]["split"] = hostile
    page = build_page(results, {"model": hostile, "towers": hostile})
    seen = Reader(page)
    assert "script" not in seen.tags
    assert "document.documentElement.dataset.run = 1" in seen.text
    assert "U+202E" in seen.text
    assert "U+0007" in seen.text
    assert "\u202e" not in page
    assert "\x07" not in page


def test_nothing_is_loaded_and_no_script_may_run(results: dict[str, Any]) -> None:
    page = build_page(results, {})
    seen = Reader(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(seen.tags)
    assert seen.values == []  # no address of anything, no style on an element
    assert "url(" not in page
    assert "@import" not in page
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'\"" in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\tc", "a\nb\tc"),
        ("\ud800", "[U+D800]"),  # a lone surrogate, which JSON can spell
        ("\u2028", "[U+2028]"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),  # a joiner that Persian needs
        ("a & 'b'", "a &amp; &#x27;b&#x27;"),
    ],
)
def test_characters_that_would_hide(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_the_least_that_there_can_be(one_run: Callable[..., dict[str, Any]]) -> None:
    seen = read(one_run())
    assert "recall@10, as it is50.0%" in seen.text
    assert "Freshness" not in seen.text
    assert "What is mined" not in seen.text
    assert "during training" not in seen.text


def test_strange_but_harmless_values_are_left_out(one_run: Callable[..., dict[str, Any]]) -> None:
    more = {
        "targets_reembedded": float("nan"),
        "seconds": {"total": 10**400},
        "steps_per_second": None,
        "freshness": [{"step": 0}, {"overlap_stale": 1.0}],
        "curve": [{"step": 1, "recall@10": float("inf")}],
        "metrics": {"recall@10": 0.5, "own@3": 0.1},
    }
    results = one_run(**more) | {"summary": ["no", "object"], "data": None}
    page = build_page(results, {})
    assert "nan" not in Reader(page).text
    assert cells(page, "as it is") == ["50.0"]


def test_one_seed_has_no_spread(results: dict[str, Any]) -> None:
    results["runs"] = results["runs"][::2]
    results.pop("summary")
    page = build_page(results, {})
    assert cells(page, "corrected")[0] == "50.0"
    assert "standard deviation" not in page
    assert 'class="comparison"' not in page


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"metrics": None}, "run 1: `metrics` must be an object, got None"),
        ({"metrics": {"recall@10": "a"}}, "`metrics` must be numbers, got 'a' for 'recall@10'"),
        ({"strategy": 3}, "run 1: `strategy` must be a string, got 3"),
        ({"freshness": "no"}, "run 1: `freshness` must be a list, got 'no'"),
        ({"curve": [1]}, "run 1: `curve`, number 1 must be an object, got 1"),
        ({"examples": [{"query": 5}]}, "`examples`, number 1: `query` must be a string, got 5"),
        (
            {"examples": [{"query": "q", "true": [{"text": "t"}]}]},
            "`row` must be a number, got None",
        ),
    ],
)
def test_results_that_break_a_rule_name_it(
    one_run: Callable[..., dict[str, Any]], change: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    (tmp_path / "results.json").write_text(json.dumps(one_run(**change)))
    with pytest.raises(InputError, match=re.escape(rule)) as error:
        write_page(tmp_path)
    assert str(tmp_path / "results.json") in str(error.value)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("text", ["{", "[1]", '{"runs": 3}', '{"runs": []}', "[" * 100_000, "\xff"])
def test_a_broken_file_is_one_clear_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results.json").write_bytes(text.encode("latin-1"))
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert str(tmp_path / "results.json") in error
    assert "Traceback" not in error
