"""Could this command be typed? Its program, script, target and flags, without running it."""

import contextlib
import io
import re
import tomllib
from collections.abc import Sequence
from functools import cache

from scripts.documented import ROOT, Command

from unstale.cli.main import COMMANDS, parse

# What a page writes for a number that the reader has.
NUMBERS = {"N": "21000000"}
UNSTALE = ("unstale", ".venv/bin/unstale")
_PASS_ON = ("experiments/nq.py", "experiments/msmarco.py")  # unknown flags go to `unstale train`


def check(command: Command) -> None:
    """Raise ValueError if a reader who types this would be told that there is no such thing."""
    program, *words = command.words
    if program in UNSTALE:
        _unstale(words, inline=command.inline)
    elif program == "torchrun":
        module = words.index("unstale.cli.main")
        _unstale(words[module + 1 :])
    elif program == "python":
        _script(words)
    elif program == "make":
        _each("target", words, _targets())
    elif program == "pip":
        _each("extra", re.findall(r"unstale\[([\w-]+)\]", " ".join(words)), _extras())
    elif program == "pytest":
        _file(words[0])
    else:
        raise ValueError(f"what is {program}?")


def _unstale(words: Sequence[str], *, inline: bool = False) -> None:
    if words[:1] == ["--print_completion"]:  # a parser that printed its script cannot parse again
        return
    if words[:1] != ["--help"]:
        _each("command", words[:1], COMMANDS)
    if inline and len(words) == 1:  # its name alone, in a sentence
        return
    if "--config" in words:  # a file of the reader's
        place = words.index("--config")
        words = [*words[:place], *words[place + 2 :]]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):  # --help
        parse([NUMBERS.get(word, word) for word in words])


def _script(words: Sequence[str]) -> None:
    _file(words[0])
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    known = set(re.findall(r'"(--[\w-]+)"', (ROOT / words[0]).read_text("utf-8")))
    if words[0] in _PASS_ON:
        known |= set(
            re.findall(r'"(--[\w-]+)"', (ROOT / "experiments/paper.py").read_text("utf-8"))
        )
        own = [i for i, word in enumerate(words) if word.startswith("--") and word not in known]
        for i in own:
            _unstale(["train", *words[i : i + 2]])
    else:
        _each("flag", flags, known)


def _file(name: str) -> None:
    if not (ROOT / name).is_file():
        raise ValueError(f"there is no {name}")


def _each(what: str, names: Sequence[str], known: object) -> None:
    for name in names:
        if name not in known:  # type: ignore[operator]
            raise ValueError(f"there is no {what} {name}")


@cache
def _targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


@cache
def _extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return set(project["optional-dependencies"])
