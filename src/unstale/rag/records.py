"""Questions with answers as NQ-open, TriviaQA, HotPotQA, FiD and Atlas write them.

A record is known by its keys, so a file needs no label. What it may hold:

- the question: `question`, or TriviaQA's `Question`;
- answers: `answers`, `answer` or Atlas's `target`, a text or a list; TriviaQA's `answer` or
  `Answer`, an object with a value and aliases; SQuAD's `answers.text`;
- contexts: `ctxs` or `passages` (objects with title and text), relevant if an answer stands in one,
  or HotPotQA's `context` (title and sentences), whose `supporting_facts` name the relevant ones.
"""

from collections.abc import Sequence
from typing import Any

from unstale.data.formats.toolkits import split_contexts
from unstale.data.gather import Example, Target
from unstale.data.lines import identifier, show, strings, text
from unstale.errors import InputError

Fields = dict[str, Any]  # one record of a file
_IDS = ("_id", "id", "question_id", "QuestionId")


def parse_record(record: Fields, where: str) -> Example:
    """Read one record; `where` names it in errors."""
    question = text(record.get("question", record.get("Question")), "question", where)
    answers = _answers(record, where)
    if not answers:
        raise InputError(f"{where}: the question {show(question)} has no answer")
    ids = (identifier(record, key, where) for key in _IDS)
    id = next((id for id in ids if id is not None), None)
    sides = _contexts(record, where)
    if record.get("ctxs") or record.get("passages"):
        sides = split_contexts(record, answers, where)
    return Example(id, question, *sides, answers, taught=_taught(record, answers))


def _taught(record: Fields, answers: Sequence[str]) -> str | None:
    """Return the answer that FiD trains on: its `target`, or TriviaQA's value; capitals go down."""
    named = isinstance(record.get("target"), str) and record["target"].strip()
    if named:
        return str(record["target"])
    value = record.get("answer", record.get("Answer"))
    if not isinstance(value, dict) or not {"value", "Value"} & value.keys():
        return None
    return answers[0].title() if answers[0].isupper() else answers[0]


def _answers(record: Fields, where: str) -> list[str]:
    """Collect every way that a record gives an answer, without repeats."""
    found: list[str] = []
    for name in ("answers", "answer", "Answer", "target"):
        value = record.get(name)
        parts: Sequence[object] = [value]
        if isinstance(value, dict):
            lower = {key.lower(): part for key, part in value.items()}
            parts = [lower.get("value"), lower.get("text"), lower.get("aliases")]
        for part in parts:
            found += strings([part] if isinstance(part, str) else part or [], name, where)
    return list(dict.fromkeys(answer for answer in found if answer.strip()))


def _contexts(record: Fields, where: str) -> tuple[list[Target], list[Target]]:
    """Return HotPotQA's contexts: those said to support the answer, and the others."""
    pairs, facts = record.get("context"), record.get("supporting_facts") or []
    if isinstance(pairs, dict):  # as the hub stores HotPotQA: by columns
        columns = [pairs.get(name) or [] for name in ("title", "sentences")]
        if not all(isinstance(column, list) for column in columns):
            raise InputError(f"{where}: a context's columns must be lists, not {show(pairs)}")
        pairs = list(zip(*columns, strict=False))
    if not isinstance(pairs, list):  # another set's `context`, a text: not a corpus
        return [], []
    titles = _supporting(facts, where)
    sides: tuple[list[Target], list[Target]] = ([], [])
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(f"{where}: a context must be [title, sentences], not {show(pair)}")
        title, sentences = pair
        body = "".join(strings(sentences, "context", where))
        target = Target(None, text(title, "title", where).strip(), body.strip())
        sides[0 if title in titles else 1].append(target)
    return sides


def _supporting(facts: object, where: str) -> list[str]:
    """Return the titles in HotPotQA's supporting facts: of pairs, or by columns."""
    if isinstance(facts, dict):
        return strings(facts.get("title"), "supporting_facts", where)
    if not isinstance(facts, list) or not all(isinstance(f, list | tuple) and f for f in facts):
        raise InputError(f"{where}: supporting facts must be [title, number], not {show(facts)}")
    return strings([fact[0] for fact in facts], "supporting_facts", where)
