"""Training examples as other toolkits write them: DPR, FiD and Atlas, and Tevatron.

Each has JSON files, one a split and one query a record, and maybe a file with the corpus. With a
corpus, a passage's id names a target of it; without one, the passages are the corpus.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from unstale.data import lines
from unstale.data.answers import AnswerFinder
from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.format import Format, Location, splits_of
from unstale.data.formats.questions import asks, question_splits, read_questions, write_questions
from unstale.data.formats.walk import answered, examples, targets
from unstale.data.gather import Example, Target, gather, parse_target
from unstale.data.lines import Record
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
_HEADER = ["id", "text", "title"]  # of a corpus in DPR's tsv


@final
@dataclass(frozen=True)
class Toolkit:
    """How one toolkit writes examples and the corpus; the first three are those of `Format`."""

    name: str
    about: str
    lacks: tuple[str, ...]
    keys: Sequence[set[str]]  # the first record of a file has all keys of one of these sets
    parse: Callable[[Record, str], Example]
    render: Callable[[Example], Record]
    corpus: str  # the name of its file
    passage: Callable[[Target], Record]  # renders a target of the corpus
    id_keys: tuple[str, ...] = ("id",)  # what the corpus calls an id
    inline: bool = True  # the examples hold the texts of their targets, not only ids
    by_text: bool = False  # the examples name their targets by text, and not by id
    judged: bool = True  # every query has a positive
    array: bool = False  # a file is written as one JSON array, and not as JSON lines
    # Only the first positive is relevant, unless `PATH:positives=all` says so, and splits without
    # qrels are files of questions and answers, SPLIT.qa.csv.
    gold_first: bool = False

    @property
    def format(self) -> Format:
        """Return how files of this toolkit are read and written."""
        return Format(
            self.name, self.about, self._fits, self._read, self._write, self.lacks,
            questions=self.gold_first,
        )  # fmt: skip

    def _fits(self, at: Location) -> list[Path]:
        return self._files(at) or (self._question_files(at) if at.beside(self.corpus) else [])

    def _question_files(self, at: Location) -> list[Path]:
        return [file for file in at.files(".csv") if self.gold_first and asks(file)]

    def _files(self, at: Location) -> list[Path]:
        found = at.files(".json", ".jsonl")
        return [f for f in found if any(keys <= _first(f).keys() for keys in self.keys)]

    def _read(self, at: Location) -> RetrievalDataset:
        corpus = at.corpus(self.corpus)
        if corpus is None and not self.inline:
            rule = f"its examples name targets by id, so give a folder that has {self.corpus} too"
            raise InputError(f"{at.place}: {rule}")
        files, asked = self._files(at), self._question_files(at) if corpus else []
        if not files and not asked:
            raise InputError(f"{at.place}: no JSON file there holds examples in this format")
        if (chosen := at.columns.get("positives", "first")) not in ("first", "all"):
            raise InputError(f"{at.place}: positives={chosen} must be positives=first or all")
        passages = read_corpus(corpus, at.progress, *self.id_keys) if corpus else ()
        parse = _gold_first(self.parse) if self.gold_first and chosen == "first" else self.parse
        splits = splits_of(files)
        found = (
            (split, where, parse(record, where))
            for split, parts in splits.items()
            for file in parts
            for where, record in lines.json_records(file, at.progress)
        )
        gatherer = gather(found, passages, by_text=self.by_text)
        for split, file in question_splits(asked).items():
            if split in splits:
                _LOG.warning("%s is not read: %s has that split", file, splits[split][0].name)
                continue
            for where, question, answers in read_questions(file, at.progress):
                gatherer.question(split, question, answers, where)
        return gatherer.dataset(at.name, judged=self.judged)

    def _write(self, dataset: RetrievalDataset, folder: Path) -> None:
        passages = map(self.passage, targets(dataset))
        if self.corpus.endswith(".tsv"):
            rows = ([passage[key] for key in _HEADER] for passage in passages)
            lines.write_csv(folder / self.corpus, _HEADER, rows, "\t")
        else:
            lines.write_lines(folder / self.corpus, passages)
        for split in dataset.qrels:
            found = answered(dataset, split) if self.judged else examples(dataset, split)
            write = lines.write_array if self.array else lines.write_lines
            write(folder / f"{split}.{'json' if self.array else 'jsonl'}", map(self.render, found))
        if self.gold_first:
            write_questions(dataset, folder)


def _first(file: Path) -> Record:
    """Return the first record of a JSON file, or an empty one if it has none."""
    try:
        return next(lines.json_records(file, progress=False), ("", {}))[1]
    except InputError:
        return {}


def _gold_first(parse: Callable[[Record, str], Example]) -> Callable[[Record, str], Example]:
    """Judge the first positive alone: DPR's others hold an answer, and nobody called them gold."""

    def parse_first(record: Record, where: str) -> Example:
        example = parse(record, where)
        return example._replace(positives=example.positives[:1], others=example.positives[1:])

    return parse_first


def read_corpus(path: Path, progress: bool, *id_keys: str) -> Iterator[tuple[str, Target]]:
    """Yield `(where, target)` of JSON records, or of DPR's tsv with id, text and maybe title."""
    json = path.suffix != ".tsv"
    for where, record in lines.json_records(path, progress) if json else ():
        yield where, parse_target(record, where, *id_keys)
    for line, fields in lines.csv_rows(path, progress, "\t") if not json else ():
        if fields[:2] == _HEADER[:2]:
            continue
        if len(fields) not in (2, 3):
            rule = f"expected {', '.join(_HEADER)}, found {lines.show(fields)}"
            raise InputError(f"{path}:{line}: {rule}")
        yield f"{path}:{line}", Target(fields[0], fields[2] if len(fields) == 3 else "", fields[1])


def _passage(id_key: str) -> Callable[[Target], Record]:
    return lambda target: {id_key: target.id, "title": target.title, "text": target.text}


def _passages(record: Record, key: str, where: str, *id_keys: str) -> list[Target]:
    """Take a list of passages out of a record; by default as DPR and FiD call their ids."""
    keys = id_keys or ("passage_id", "psg_id", "id")
    return [parse_target(p, f"{where}, {key}", *keys) for p in lines.objects(record, key, where)]


def _parse_dpr(record: Record, where: str) -> Example:
    """Make an example in which hard negatives come before plain ones."""
    keys = ("positive_ctxs", "hard_negative_ctxs", "negative_ctxs")
    positives, hard, plain = (_passages(record, key, where) for key in keys)
    answers = lines.strings(record.get("answers"), "answers", where)
    return Example(None, lines.string(record, "question", where), positives, hard + plain, answers)


def _render_dpr(example: Example) -> Record:
    positives, negatives = (
        [{"title": t.title, "text": t.text, "passage_id": t.id} for t in side]
        for side in (example.positives, example.negatives)
    )
    answers = list(example.answers)
    record = {"question": example.query, "answers": answers, "positive_ctxs": positives}
    return record | {"negative_ctxs": [], "hard_negative_ctxs": negatives}


DPR = Toolkit(
    "dpr",
    "JSON with question and positive_ctxs, alone or in a folder with psgs_w100.tsv",
    ("query ids", "grades"),
    keys=[{"question", "positive_ctxs"}],
    parse=_parse_dpr,
    render=_render_dpr,
    corpus="psgs_w100.tsv",
    passage=_passage("id"),
    array=True,
    gold_first=True,
).format


def parse_fid(record: Record, where: str) -> Example:
    """Make an example of a record: contexts with an answer are positive, the others negative."""
    answers = lines.strings(record.get("answers") or record.get("target"), "answers", where)
    id = lines.identifier(record, "id", where)
    sides = split_contexts(record, answers, where)
    return Example(id, lines.string(record, "question", where), *sides, answers)


def split_contexts(
    record: Record, answers: Sequence[str], where: str
) -> tuple[list[Target], list[Target]]:
    """Return the contexts with an answer, and those without.

    FiD's files say what was retrieved, not what is relevant. A context is taken as relevant if it
    says `has_answer`, or else if it contains one of the answers.
    """
    key, holds = "ctxs" if "ctxs" in record else "passages", AnswerFinder(answers)
    sides: tuple[list[Target], list[Target]] = ([], [])
    for raw, context in zip(record.get(key) or [], _passages(record, key, where), strict=True):
        said = raw.get("has_answer", raw.get("hasanswer"))
        good = bool(said) if said is not None else holds(context.text or "")
        sides[0 if good else 1].append(context)
    return sides


def _render_fid(example: Example) -> Record:
    sides = ((True, example.positives), (False, example.negatives))
    passage = _passage("id")
    contexts = [passage(t) | {"has_answer": good} for good, side in sides for t in side]
    answers = list(example.answers)
    return {"id": example.id, "question": example.query, "answers": answers, "ctxs": contexts}


FID = Toolkit(
    "fid",
    "JSON with question and ctxs or passages, alone or in a folder with passages.jsonl",
    ("grades",),
    keys=[{"question", "ctxs"}, {"question", "passages"}],
    parse=parse_fid,
    render=_render_fid,
    corpus="passages.jsonl",
    passage=_passage("id"),
    judged=False,  # questions and answers alone are of use too, to a reader
).format


def _parse_tevatron(record: Record, where: str) -> Example:
    query = "query" if "query_text" not in record else "query_text"
    return Example(
        lines.identifier(record, "query_id", where),
        lines.string(record, query, where),
        _tevatron_side(record, "positive", where),
        _tevatron_side(record, "negative", where),
        lines.strings(record.get("answers"), "answers", where),
    )


def _tevatron_side(record: Record, side: str, where: str) -> list[Target]:
    if (key := f"{side}_document_ids") in record:
        ids = record[key]
        if isinstance(ids, list):
            ids = [str(i) if isinstance(i, int) else i for i in ids]
        return [Target(id, "", None) for id in lines.strings(ids, key, where)]
    return _passages(record, f"{side}_passages", where, "docid")


def _render_tevatron(
    example: Example, query: str, what: str, side: Callable[[Target], object]
) -> Record:
    return {
        "query_id": example.id,
        query: example.query,
        f"positive_{what}": list(map(side, example.positives)),
        f"negative_{what}": list(map(side, example.negatives)),
    } | ({"answers": list(example.answers)} if example.answers else {})


TEVATRON = Toolkit(
    "tevatron",
    "a folder with JSON that has query_id and positive_document_ids, and corpus.jsonl",
    ("titles", "grades"),
    keys=[{"query_id", "positive_document_ids"}],
    parse=_parse_tevatron,
    render=lambda e: _render_tevatron(e, "query_text", "document_ids", lambda t: t.id),
    corpus="corpus.jsonl",
    # Tevatron trains on `text` alone here, so the title stands in it.
    passage=lambda target: {"docid": target.id, "text": target.joined},
    id_keys=("docid",),
    inline=False,
).format
TEVATRON_INLINE = Toolkit(
    "tevatron-inline",
    "JSON with query_id and positive_passages, alone or in a folder with corpus.jsonl",
    ("grades",),
    keys=[{"query_id", "positive_passages"}],
    parse=_parse_tevatron,
    render=lambda e: _render_tevatron(e, "query", "passages", _passage("docid")),
    corpus="corpus.jsonl",
    passage=_passage("docid"),
    id_keys=("docid",),
).format
