"""A real browser for tests: Chromium, headless, with a fresh profile."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

# Load the page in a frame of a phone's or a desk's width, and write down what a person would see.
HARNESS = """<!doctype html><body><iframe id="frame" width="{width}" height="3000" srcdoc="{page}">
</iframe><script>
onload = () => {{
  const page = document.getElementById("frame").contentDocument;
  const shown = [...page.querySelectorAll("svg")].filter(s => s.checkVisibility());
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 &&
                         a.top < b.bottom - 3 && b.top < a.bottom - 3;
  const smallest = Math.min(...shown.map(
    s => parseFloat(getComputedStyle(s).fontSize) * s.getBoundingClientRect().width
         / s.viewBox.baseVal.width));
  let covered = [], cut = [];
  for (const svg of shown) {{
    const names = [...svg.querySelectorAll("text.name")];
    const boxes = names.map(n => n.getBoundingClientRect()), own = svg.getBoundingClientRect();
    boxes.forEach((a, i) => {{
      if (a.left < own.left - 1 || a.right > own.right + 1) cut.push(names[i].textContent);
      boxes.slice(i + 1).forEach(b => meet(a, b) && covered.push(names[i].textContent));
    }});
  }}
  page.querySelectorAll("section > details > summary").forEach(s => s.click());
  const opened = [...page.querySelectorAll("svg")].filter(s => s.checkVisibility());
  document.body.dataset.seen = JSON.stringify({{
    width: page.documentElement.scrollWidth, charts: shown.length, covered, cut,
    opened: opened.length, ran: page.documentElement.dataset.run || null,
    scripts: page.scripts.length, paper: getComputedStyle(page.body).backgroundColor,
    text: page.body.innerText, smallest,
  }});
}};
</script>"""


def browse(address: str, folder: Path, *flags: str) -> str:
    """Return a page as the browser has it after loading."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    assert browser, "no chromium: make test-browser installs it"
    profile = folder / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    quiet = "--headless --no-sandbox --disable-gpu --disable-background-networking "
    quiet += "--disable-component-update --disable-sync --no-first-run"
    command = [browser, *quiet.split(), f"--user-data-dir={profile}"]
    command += ["--window-size=1200,3200", *flags, "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def look(page: Path, folder: Path, width: int, *flags: str) -> dict[str, Any]:
    harness = folder / "harness.html"
    text = html.escape(page.read_text("utf-8"), quote=True)
    harness.write_text(HARNESS.format(width=width, page=text), "utf-8")
    seen = re.search(r'data-seen="(.*?)"', browse(harness.as_uri(), folder, *flags), re.DOTALL)
    assert seen, "the page did not load"
    return json.loads(html.unescape(seen[1]))
