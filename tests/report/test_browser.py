"""The page in a real browser: Chromium, headless, with a fresh profile."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.browser import browse, look

from unstale.report.page import write_page

pytestmark = pytest.mark.browser


@pytest.fixture
def page(results: dict[str, Any], hostile: str, tmp_path: Path) -> Path:
    results["data"]["name"] = hostile
    # Company for the labels: seven strategies at the same cost, some of the same recall.
    for i, name in enumerate(("uniform", "in-batch", "dynnibal", "stale-frozen")):
        run = json.loads(json.dumps(results["runs"][0]))
        run["strategy"], run["metrics"]["recall@10"] = name, 0.45 + 0.002 * i
        results["runs"].append(run)
    (tmp_path / "results.json").write_text(json.dumps(results))
    return write_page(tmp_path)


@pytest.mark.parametrize("width", [360, 1100])
def test_a_person_can_read_it(page: Path, tmp_path: Path, width: int) -> None:
    seen = look(page, tmp_path, width)
    assert seen["width"] <= width  # nothing sticks out: no scrolling sideways
    assert seen["charts"] == 1 + 7 + 1  # the strategies, a panel for each, one of two curves
    assert seen["covered"] == []  # no name over another
    assert seen["cut"] == []  # no name beyond its chart
    assert seen["smallest"] > 10  # pixels of the smallest chart's text
    assert seen["opened"] == seen["charts"] + 1  # against steps too, on a click
    assert "What is mined" in seen["text"]


def test_a_script_in_the_data_is_text(page: Path, tmp_path: Path) -> None:
    seen = look(page, tmp_path, 800)
    assert seen["ran"] is None
    assert seen["scripts"] == 0
    assert "<script>document.documentElement.dataset.run = 1</script>" in seen["text"]
    assert 'data-run="1"' not in browse(page.as_uri(), tmp_path)


def test_it_is_light_or_dark_as_the_reader_likes(page: Path, tmp_path: Path) -> None:
    light = look(page, tmp_path, 800, "--blink-settings=preferredColorScheme=1")
    dark = look(page, tmp_path, 800, "--blink-settings=preferredColorScheme=0")
    assert light["paper"] == "rgb(255, 255, 255)"
    assert dark["paper"] == "rgb(20, 24, 27)"  # --paper of page.css: #14181b
