"""A page of a report, as a test reads it."""

import re
from html.parser import HTMLParser
from typing import Any

from unstale.report.page import build_page


class Reader(HTMLParser):
    """Collect the text and the elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.values: list[str] = []
        self.text = ""
        self.feed(page)
        self.text = re.sub(r"\s+", " ", self.text.partition("}")[2] or self.text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.values += [v or "" for name, v in attributes if name in ("src", "href", "style")]

    def handle_data(self, data: str) -> None:
        self.text += data


def read(results: dict[str, Any], **settings: object) -> Reader:
    return Reader(build_page(results, settings))


def cells(page: str, strategy: str) -> list[str]:
    """Return the cells of a strategy's row in the first table that has it."""
    row = next(r for r in re.findall(r"<tr.*?</tr>", page) if f">{strategy}</th>" in r)
    return [Reader(c).text.strip() for c in re.findall(r"<td.*?</td>", row)]
