"""The frame of a page: what the report and the served page have in common."""

from importlib.resources import files
from string import Template


def style_sheet(package: str = "unstale.report") -> str:
    """Return the style sheet of a package's pages."""
    return (files(package) / "page.css").read_text("utf-8")


def document(**parts: str) -> str:
    """Build a page of its `head`, `title`, `style`, `heading`, `body` and `footer`, all escaped."""
    return Template((files("unstale.report") / "page.html").read_text("utf-8")).substitute(parts)
