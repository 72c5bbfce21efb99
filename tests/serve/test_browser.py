"""The page in a real browser: what a person sees of both sides, and that no text is run."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.browser import browse, look
from tests.serve.test_serve import HOSTILE, serving

from unstale.cli.options_inspect import ServeFlags
from unstale.cli.serve import open_page
from unstale.data.dataset import Texts
from unstale.serve.page import Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(read: Path) -> Page:
    made = open_page(ServeFlags(str(read)))
    texts = [f"{HOSTILE} {text}" for text in made.dataset.targets]
    return replace(made, dataset=replace(made.dataset, targets=Texts.of(texts)))


@pytest.mark.parametrize("width", [360, 1100])
def test_a_person_can_read_it(page: Page, tmp_path: Path, width: int) -> None:
    file = tmp_path / "page.html"
    file.write_text(page("which river was deep?"), "utf-8")
    seen = look(file, tmp_path, width)
    assert seen["width"] <= width  # nothing sticks out: no scrolling sideways
    assert seen["scripts"] == 0
    for words in ("Answer", "Before training", "After training", "Read from 3 targets"):
        assert words in seen["text"]


def test_a_script_in_the_data_is_text(page: Page, tmp_path: Path) -> None:
    with serving(page) as port:
        seen = browse(f"http://127.0.0.1:{port}/?q={quote(HOSTILE)}", tmp_path)
    assert "After training" in seen
    assert 'data-run="1"' not in seen
    assert "<script" not in seen
