"""The built site in a real browser: every page fits a phone, and nothing comes from elsewhere."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.browser import browse

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[1]
# Load one page after the other in a frame of a phone's width, and write down what sticks out.
HARNESS = """<!doctype html><body><iframe id="frame" width="{width}" height="800"></iframe><script>
const pages = {pages}, frame = document.getElementById("frame"), seen = {{}};
frame.onload = () => {{
  const page = frame.contentDocument, broken = [...page.images].filter(i => !i.naturalWidth);
  seen[pages.shift()] = [page.documentElement.scrollWidth, broken.map(i => i.src)];
  if (pages.length) frame.src = pages[0];
  else document.body.dataset.seen = JSON.stringify(seen);
}};
frame.src = pages[0];
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True)
    return folder


@pytest.mark.parametrize("width", [360, 1100])
def test_every_page_fits(site: Path, tmp_path: Path, width: int) -> None:
    pages = sorted(page.as_uri() for page in site.rglob("index.html"))
    harness = tmp_path / "harness.html"
    harness.write_text(HARNESS.format(width=width, pages=json.dumps(pages)), "utf-8")
    flags = ("--allow-file-access-from-files", "--virtual-time-budget=60000")
    found = re.search(r'data-seen="(.*?)"', browse(harness.as_uri(), tmp_path, *flags), re.DOTALL)
    assert found, "the pages did not load"
    seen = json.loads(html.unescape(found[1]))
    assert len(seen) == len(pages) > 25
    for page, (wide, broken) in seen.items():
        assert wide <= width, f"{page} is {wide} wide"
        assert broken == [], page


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        loaded = re.findall(
            r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?:[^"]+)', text
        )
        assert loaded == [], page
