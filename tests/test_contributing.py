"""The promises of CONTRIBUTING.md, checked by machine."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from jsonargparse import ArgumentParser

from unstale.cli.flags import add_flags, flag_values, instantiate, marked_flags
from unstale.data.formats import FORMATS, find_format
from unstale.data.formats.format import Format
from unstale.declare import check_bounds, setting
from unstale.errors import InputError
from unstale.miners import Strategy, strategies
from unstale.rag.settings import RagSettings
from unstale.strategies import STRATEGIES
from unstale.training.card import card_settings
from unstale.training.settings import Checked, TrainSettings

SRC = Path(__file__).parents[1] / "src" / "unstale"
FILES = sorted(str(path.relative_to(SRC)) for path in SRC.rglob("*.py"))


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((SRC / file).read_text("utf-8"))


@cache
def docstrings(file: str) -> set[int]:
    """Return the lines that docstrings take."""
    lines: set[int] = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    return lines


def texts(file: str) -> Iterator[tuple[int, str]]:
    """List the strings of a file's code, with their lines; docstrings are none."""
    for node in ast.walk(tree(file)):
        text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if text and node.lineno not in docstrings(file):
            yield node.lineno, node.value


# A strategy: one file and one entry.


def test_every_strategy_is_one_file_and_one_entry() -> None:
    files = [name.replace("-", "_") for name in STRATEGIES]
    own = [import_module(f"unstale.miners.{file}").STRATEGY for file in files]
    assert all(isinstance(found, Strategy) for found in own)
    assert list(strategies()) == [found.name for found in own] == list(STRATEGIES)
    ending = [f for f in FILES if re.search(r"^STRATEGY = ", (SRC / f).read_text(), re.MULTILINE)]
    assert {Path(file).stem for file in ending} == set(files)


# Where else a strategy is named, and why.
NAMED = {
    "strategies.py": "the list of all; `none` and `frozen` are in-batch and stale with a reader",
    "settings.py": "the default of a training",
    "rag/settings.py": "the default of Algorithm 2",
    "cli/compared.py": "what a comparison compares by default",
    "cli/demo.py": "what the demo compares",
    "doctor/trial.py": "what the doctor tries",
    "cli/doctor.py": "what the doctor tried, and what to compare with",
    "doctor/advice.py": "what the doctor advises",
    "report/words.py": "whether in-batch would have done as well",
    "report/summary.py": "a gap is measured from stale to exhaustive",
    "report/grid.py": "a gap is measured from stale to exhaustive",
    "report/entries.py": "a gap is measured from stale to exhaustive",
}
NAMES = frozenset(strategies())
# These are ordinary words, too.
WORDS = {"stale", "corrected", "uniform"}


def names_in(text: str) -> set[str]:
    """Return the strategies that a string of code names."""
    listed = set(text.split(","))  # of one or several
    return {
        name
        for name in NAMES
        if name in listed or ("-" in name and name in re.findall(r"[\w-]+", text))
    }


def test_a_strategy_is_named_in_its_own_file_alone() -> None:
    found = []
    for file in set(FILES) - set(NAMED):
        for line, text in texts(file):
            own = Path(file).stem.replace("_", "-") if file.startswith("miners/") else ""
            others = names_in(text) - {own}
            if text in WORDS:  # a view of a target, or a kind of draw
                others = set()
            if file.startswith("miners/"):  # a strategy may be described by another
                others = {name for name in others if text == name}
            found += [f"{file}, line {line}: {name}" for name in others]
    assert not found


# A setting: its field, and its use.


@dataclass(frozen=True)
class Patience:
    """Patience: a section that somebody adds.

    Args:
        patience: How long to wait.
        haste: How much to hurry.
    """

    patience: float = setting(1.5, least=0, changeable=True)
    haste: int = 3


@dataclass(frozen=True)
class Wider(Patience, TrainSettings):
    """A training with a section more."""


def test_a_new_setting_needs_no_more_than_its_field() -> None:
    parser = ArgumentParser(exit_on_error=False)
    add_flags(parser, Wider, {})
    helps = {a.option_strings[0]: a.help for a in parser._actions if a.option_strings}
    assert helps["--patience"] == "How long to wait."
    values = parser.parse_args(["--patience", "2.5", "--haste", "4"]).as_dict()
    chosen = instantiate(Wider, values)
    assert (chosen.patience, chosen.haste, chosen.steps) == (2.5, 4, TrainSettings().steps)
    assert flag_values(chosen)["haste"] == 4  # what config.yaml holds
    assert "patience" in marked_flags(Wider, "changeable")
    assert "haste" not in marked_flags(Wider, "changeable")
    with pytest.raises(InputError, match=r"--patience must be at least 0, got -1\.0"):
        check_bounds(Wider(patience=-1.0))
    settings = Wider(haste=5)
    strategy = strategies()[settings.strategy]
    checked = Checked(settings, strategy, strategy.negatives, 64, 2e-5, 20.0, {})
    assert card_settings(checked)["haste"] == 5


# Names that many parts have for things of their own.
EVERYDAY = set(
    "strategy steps batch_size learning_rate scale seed trainer search buffer dtype sampling "
    "memory rank k fusion filters eval_split hard_negatives refreshes".split()
)
ALGORITHMS = ("training/", "miners/", "rag/", "drop_in/", "cli/train", "cli/rag", "cli/compare")
USES = 5  # files that may use a setting: check it, pass it to Algorithms 1 and 2, act on it


def identifiers(file: str) -> set[str]:
    """Return every name in a file's code."""
    found: set[str] = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.keyword | ast.arg) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.Name):
            found.add(node.id)
    return found | {text for _, text in texts(file)}


def test_a_setting_is_named_where_it_is_declared_and_where_it_is_used() -> None:
    names = {f.name for kind in (TrainSettings, RagSettings) for f in fields(kind)} - EVERYDAY
    assert "corrector_weight" in names
    where: dict[str, list[str]] = {name: [] for name in names}
    for file in FILES:
        if file.startswith(ALGORITHMS) and file != "rag/settings.py":
            for name in identifiers(file) & names:
                where[name].append(file)
    assert not {name: files for name, files in where.items() if not files}  # without a use
    assert not {name: files for name, files in where.items() if len(files) > USES}


def test_settings_are_declared_once() -> None:
    sections = [c for c in TrainSettings.__mro__ if c.__module__ == "unstale.settings"]
    declared = [name for c in sections for name in vars(c).get("__annotations__", {})]
    assert len(declared) == len(set(declared)) == len(fields(TrainSettings))


def test_no_settings_by_reflection() -> None:
    """No signature is read, and no local variables are taken for settings."""
    for file in FILES:
        called = {
            ast.unparse(node.func) for node in ast.walk(tree(file)) if isinstance(node, ast.Call)
        }
        assert not called & {"inspect.signature", "signature", "locals"}, file


# Searches and miners: a protocol, and no guessing.

# What `getattr` is for, where no type could say it.
LOOKED_UP = {
    "rag/reader.py": "self.model.config",  # of transformers: some have no limit
    "training/card.py": "settings",  # by the names of its fields
    "training/identity.py": "settings",
    "training/settings.py": "settings",
}


def test_searches_and_miners_are_not_guessed_at() -> None:
    parts = ("search/", "miners/", "training/", "rag/")
    classes = {
        node.name
        for file in FILES
        if file.startswith(("search/", "miners/"))
        for node in tree(file).body
        if isinstance(node, ast.ClassDef)
    }
    assert {"Exact", "Corrected", "Miner"} <= classes
    found = []
    for file in [file for file in FILES if file.startswith(parts)]:
        for node in ast.walk(tree(file)):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            where = f"{file}, line {node.lineno}: {ast.unparse(node)}"
            if called == "hasattr":
                found.append(where)
            if called == "getattr" and ast.unparse(node.args[0]) != LOOKED_UP.get(file):
                found.append(where)
            if called == "isinstance" and classes & set(
                re.findall(r"\w+", ast.unparse(node.args[1]))
            ):
                found.append(where)
    assert not found


# A format: one file and one line.


def test_every_format_is_one_file_and_one_line() -> None:
    assert all(find_format(name).name == name for name in FORMATS)
    made = set()
    for file in [file for file in FILES if file.startswith("data/formats/")]:
        module = import_module(f"unstale.{file.removesuffix('.py').replace('/', '.')}")
        made |= {value.name for value in vars(module).values() if isinstance(value, Format)}
    assert made == set(FORMATS)
    # Nobody else asks which format it is.
    asked = FORMATS.keys() - {"fid"}  # which is a way to read several targets, too
    for file in [file for file in FILES if file.startswith(("cli/", "training/", "rag/"))]:
        named = {text for _, text in texts(file)} & asked
        assert not named - DEFAULT_FORMATS.get(file, set()), file


DEFAULT_FORMATS = {"cli/options.py": {"beir", "jsonl"}}


# Sizes.


def test_algorithm_1_fits_on_a_few_pages() -> None:
    assert len((SRC / "training" / "algorithm1.py").read_text().splitlines()) < 130


def test_a_file_is_short() -> None:
    sizes = {file: len((SRC / file).read_text("utf-8").splitlines()) for file in FILES}
    assert not {file: size for file, size in sizes.items() if size > 300}


def test_a_function_is_short() -> None:
    """Docstrings and blank lines are not counted."""
    found = {}
    for file in FILES:
        lines = (SRC / file).read_text("utf-8").splitlines()
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                taken = set(range(node.lineno, (node.end_lineno or 0) + 1)) - docstrings(file)
                size = sum(bool(lines[i - 1].strip()) for i in taken)
                if size > 60:
                    found[f"{file}:{node.name}"] = size
    assert not found
