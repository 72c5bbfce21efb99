"""The page in a real browser: Chromium, headless, with a fresh profile."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from unstale.report.page import write_page

pytestmark = pytest.mark.browser

# Load the page in a frame of a phone's or a desk's width, and write down what a person would see.
HARNESS = """<!doctype html><body><iframe id="frame" width="{width}" height="3000" srcdoc="{page}">
</iframe><script>
onload = () => {{
  const page = document.getElementById("frame").contentDocument;
  const shown = [...page.querySelectorAll("svg")].filter(s => s.getBoundingClientRect().width);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 &&
                         a.top < b.bottom - 3 && b.top < a.bottom - 3;
  const smallest = Math.min(...shown.map(
    s => 12.5 * s.getBoundingClientRect().width / s.viewBox.baseVal.width));
  let covered = [], cut = [];
  for (const svg of shown) {{
    const names = [...svg.querySelectorAll("text.name")];
    const boxes = names.map(n => n.getBoundingClientRect()), own = svg.getBoundingClientRect();
    boxes.forEach((a, i) => {{
      if (a.left < own.left - 1 || a.right > own.right + 1) cut.push(names[i].textContent);
      boxes.slice(i + 1).forEach(b => meet(a, b) && covered.push(names[i].textContent));
    }});
  }}
  const choose = () => [...page.querySelectorAll(".switch > div")].map(d => d.offsetHeight > 0);
  const before = choose();
  page.querySelectorAll(".switch input").forEach((b, i) => i % 2 && b.click());
  document.body.dataset.seen = JSON.stringify({{
    width: page.documentElement.scrollWidth, charts: shown.length, covered, cut,
    before, after: choose(), ran: page.documentElement.dataset.run || null,
    scripts: page.scripts.length, paper: getComputedStyle(page.body).backgroundColor,
    text: page.body.innerText, smallest,
  }});
}};
</script>"""


def browse(page: Path, folder: Path, *flags: str) -> str:
    """Return the page as the browser has it after loading."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    assert browser, "no chromium: make test-browser installs it"
    profile = folder / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    quiet = "--headless --no-sandbox --disable-gpu --disable-background-networking "
    quiet += "--disable-component-update --disable-sync --no-first-run"
    command = [browser, *quiet.split(), f"--user-data-dir={profile}", *flags]
    command += ["--window-size=1200,3200", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def look(page: Path, folder: Path, width: int, *flags: str) -> dict[str, Any]:
    harness = folder / "harness.html"
    text = html.escape(page.read_text("utf-8"), quote=True)
    harness.write_text(HARNESS.format(width=width, page=text), "utf-8")
    seen = re.search(r'data-seen="(.*?)"', browse(harness, folder, *flags), re.DOTALL)
    assert seen, "the page did not load"
    return json.loads(html.unescape(seen[1]))


@pytest.fixture
def page(results: dict[str, Any], hostile: str, tmp_path: Path) -> Path:
    results["data"]["name"] = hostile
    # Company for the labels: seven strategies at the same cost, some of the same recall.
    for i, name in enumerate(("uniform", "in-batch", "corrected-mse", "stale-frozen")):
        run = json.loads(json.dumps(results["runs"][0]))
        run["strategy"], run["metrics"]["recall@10"] = name, 0.45 + 0.002 * i
        results["runs"].append(run)
    (tmp_path / "results.json").write_text(json.dumps(results))
    return write_page(tmp_path)


@pytest.mark.parametrize("width", [360, 1100])
def test_a_person_can_read_it(page: Path, tmp_path: Path, width: int) -> None:
    seen = look(page, tmp_path, width)
    assert seen["width"] <= width  # nothing sticks out: no scrolling sideways
    assert seen["charts"] == 1 + 7 + 1  # the trade-off, a panel a strategy, one of two curves
    assert seen["covered"] == []  # no name over another
    assert seen["cut"] == []  # no name beyond its chart
    assert seen["smallest"] > 10  # pixels of the smallest chart's text
    assert seen["before"] == [True, False, True, False]  # a switch shows one of its two
    assert seen["after"] == [False, True, False, True]
    assert "What is mined" in seen["text"]


def test_a_script_in_the_data_is_text(page: Path, tmp_path: Path) -> None:
    seen = look(page, tmp_path, 800)
    assert seen["ran"] is None
    assert seen["scripts"] == 0
    assert "<script>document.documentElement.dataset.run = 1</script>" in seen["text"]
    assert 'data-run="1"' not in browse(page, tmp_path)


def test_it_is_light_or_dark_as_the_reader_likes(page: Path, tmp_path: Path) -> None:
    light = look(page, tmp_path, 800, "--blink-settings=preferredColorScheme=1")
    dark = look(page, tmp_path, 800, "--blink-settings=preferredColorScheme=0")
    assert light["paper"] == "rgb(255, 255, 255)"
    assert dark["paper"] == "rgb(20, 24, 27)"  # --paper of page.css: #14181b
