"""From a folder or a file of texts to the targets of a corpus, in passages of 100 words."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from unstale.data.formats.columns import is_empty
from unstale.data.formats.reading import Reading
from unstale.data.formats.tables import table_rows
from unstale.data.formats.toolkits import read_corpus
from unstale.data.gather import Target
from unstale.data.lines import identifier, show, string, text_lines
from unstale.data.names import split_name
from unstale.errors import InputError
from unstale.rag.table import assign

CORPORA = ("corpus.jsonl", "passages.jsonl", "psgs_w100.tsv", "corpus.csv", "corpus.parquet")
WORDS = 100  # of a passage, at most: as the corpora of the paper are cut
_PLAIN = (".txt", ".md")
_READ = (*_PLAIN, ".jsonl", ".json", ".csv", ".tsv", ".parquet")
_ROLES = {
    "text": ("text", "passage", "content", "body", "document", "context", "answer"),
    "title": ("title", "headline", "heading", "subject"),
    "id": ("id", "_id"),
}
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*\s*$")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def no_corpus(path: Path) -> InputError:
    """Make the error of questions that neither have a corpus nor bring texts of their own."""
    return InputError(
        f"{path} has no corpus, and its questions bring no contexts; name the texts by "
        f"--corpus, or put one of {', '.join(CORPORA)} into the folder"
    )


def read_texts(place: str, progress: bool) -> Iterator[tuple[str, Target]]:
    """Yield `(where, target)` of `PATH[:text=COLUMN,title=COLUMN,id=COLUMN]`.

    A .txt or .md file is cut into passages, a row of a table is a target, and so is a record with
    `text`. Of a folder, the corpus file is read; without one all .txt and .md files, those of its
    folders included.
    """
    path, columns = Path(split_name(place).place), split_name(place).columns
    if not path.is_dir():
        yield from _read_file(path, path.name, columns, progress)
        return
    named = next((found for name in CORPORA if (found := path / name).is_file()), None)
    if named:
        yield from _read_file(named, named.name, columns, progress)
        return
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in _PLAIN)
    if not files:
        inside = sorted(file.name for file in path.iterdir())[:8]
        rule = f"expected .txt or .md files, or one of {', '.join(CORPORA)}"
        raise InputError(f"{path} holds no texts: {rule}; it holds {show(inside)}")
    for file in files:
        yield from _read_file(file, str(file.relative_to(path)), {}, progress)


def _read_file(
    path: Path, name: str, columns: Mapping[str, str], progress: bool
) -> Iterator[tuple[str, Target]]:
    suffix = path.suffix.lower()
    if suffix not in _READ:
        raise InputError(f"{path}: a corpus is one of {', '.join(_READ)}; save it as text first")
    if suffix in _PLAIN:
        for number, (line, title, passage) in enumerate(_passages(path, progress), 1):
            yield f"{path}:{line}", Target(f"{name}#{number}", title, passage)
    elif suffix in (".jsonl", ".json") or path.name == "psgs_w100.tsv":
        yield from read_corpus(path, progress, "_id", "id")
    else:
        yield from _read_table(path, columns, progress)


def _passages(path: Path, progress: bool) -> Iterator[tuple[int, str, str]]:
    """Yield `(line, title, text)`; the title is the heading above, or the name of the file.

    Sentences are kept whole, and so is a paragraph if it fits into a passage.
    """
    title, fenced = path.stem, False
    began, words = 0, list[str]()  # of the passage that is being filled
    paragraph: list[str] = []

    def close(line: int) -> Iterator[tuple[int, str, str]]:
        """Add the paragraph to the passage; yield the passages that are full."""
        nonlocal began, words
        units = _units(" ".join(paragraph))
        if len(words) + sum(map(len, units)) > WORDS and words:
            yield began, title, " ".join(words)
            words = []
        for unit in units:
            if len(words) + len(unit) > WORDS:
                yield began, title, " ".join(words)
                words = []
            began = began if words else line
            words += unit
        paragraph.clear()

    line = 1
    for line, text in text_lines(path, progress, legacy=True):
        fenced ^= text.lstrip().startswith("```")
        heading = None if fenced or path.suffix.lower() != ".md" else _HEADING.match(text)
        if heading or not text.strip():
            yield from close(line)
        else:
            paragraph.append(text.strip())
        if heading:
            if words:
                yield began, title, " ".join(words)
            title, words = heading[1] or title, []
    yield from close(line)
    if words:
        yield began, title, " ".join(words)


def _units(text: str) -> list[list[str]]:
    """Cut a paragraph into sentences, as words; one longer than a passage is cut into passages."""
    found = []
    for sentence in _SENTENCE.split(text):
        words = sentence.split()
        found += [words[start : start + WORDS] for start in range(0, len(words), WORDS)]
    return found


def _read_table(
    path: Path, chosen: Mapping[str, str], progress: bool
) -> Iterator[tuple[str, Target]]:
    """Yield the targets of a table; rows without a text are skipped."""
    found = dict[str, str | None]()
    for where, row in table_rows(path, progress, Reading()):
        found = found or assign(row, _ROLES, ("text",), chosen, str(path))
        text, title, id = (found[role] for role in _ROLES)
        if is_empty(row.get(str(text))):
            continue
        head = string(row, title, where) if title and not is_empty(row.get(title)) else ""
        own = identifier(row, id, where) if id else None
        yield where, Target(own, head, string(row, str(text), where))
