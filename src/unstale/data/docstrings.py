"""Build the `docstrings` set: docstring-to-code search over the Python source on this machine.

Every function or method with a docstring may give one pair. The query is the docstring's first
paragraph, up to any `Args:`-like section, without markup and cut to 60 words. The target is the
qualified name, the signature and the code without the docstring and the decorators.

A function is dropped, and counted under the first of these rules that it meets:

- `no docstring`;
- `not prose`: the paragraph opens as a signature, an argument's entry, a section or a symbol, or
  has a character outside ASCII;
- `too short`: the query has fewer than 4 words;
- `no description`: the query sends its reader elsewhere ("See ..", "Alias of ..", "Same as .."),
  or says TODO, FIXME, XXX or deprecated;
- `repeats name`: the words of the query are those of the function's name, but for small words;
- `trivial body`: the code only passes, or raises NotImplementedError;
- `same query`, `same target`: an earlier pair has that query (case aside), or that code.
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import platform
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from unstale.data.formats.beir import write_parts
from unstale.errors import InputError
from unstale.files import cache_folder, write_json
from unstale.integrity import cached

DEFAULT_PACKAGES = ("stdlib", "numpy", "torch", "transformers", "sentence_transformers")

_FORMAT = 1  # raise it whenever the same source would give other files: it is in the cache key
_SPLITS = ("train", "dev", "test")
_MIN_WORDS, _MAX_WORDS = 4, 60
_TEST_FOLDERS = frozenset("test tests testing idlelib lib2to3 turtledemo".split())
_TEST_FILE = re.compile(r"(test_.*|.*_test|conftest|_?testing(_utils)?)\.py")
_SECTION = re.compile(
    r"(?im)^\s*((args?|arguments|parameters?|params|inputs?|outputs?|returns?|yields?|raises"
    r"|examples?|notes?|usage|shapes?|attributes)\s*:*\s*$|(args|returns|raises|examples?)\s*:"
    r"|:(param|returns?|type|rtype)\b|@param|>>>|\.\. |```|[-=~]{3})"
)
# f(.. | x (`int`.. | x (int): | x: | x = | what opens with neither a letter nor markup
_NOT_PROSE = re.compile(r"[\w.]+\(|`*\w+`* (\(`|\([^()]*\) ?:)|`*[\w-]+`* ?[:=](?!\w)|[^\w`:\[*]")
# [`link`], :role:`name`, `name`, ``code``
_MARKUP = re.compile(r"\[`+~?([^`]+)`+\]|(?::[a-z:]+:)?`+~?([^`]+)`+")
_NO_DESCRIPTION = re.compile(
    r"(?i)(see(?! if)|refer to|alias|same as|inherit|equivalent (of|to))\b"
    r"|.*\b(todo|fixme|xxx|deprecated)\b"
)
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_SMALL_WORDS = frozenset("a an the of to for in on is it this that and or return get set".split())
_TRIVIAL = re.compile(r"(pass|\.\.\.)$|raise NotImplementedError\b")

_log = logging.getLogger(__name__)
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Source = tuple[str, str]  # module name, path


class _Pair(NamedTuple):
    module: str
    title: str
    query: str
    text: str


_Outcomes = list[_Pair | str] | None  # a pair or a rule to each function; None: not parsed


def docstrings_folder(packages: Sequence[str] = DEFAULT_PACKAGES) -> Path:
    """Return the set's folder in the cache, building it if none is there for these very versions.

    Args:
        packages: Import names of installed packages, and `stdlib`. Order matters: of two equal
            pairs the first is kept.
    """
    identity = [_FORMAT, platform.python_version(), list(package_versions(packages).items())]
    key = hashlib.blake2b(json.dumps(identity).encode(), digest_size=6).hexdigest()
    return cached(cache_folder() / f"docstrings-{key}", lambda into: _write_set(into, packages))


def _write_set(folder: Path, packages: Sequence[str]) -> None:
    versions = package_versions(packages)
    sources = [source for package in versions for source in _sources(package)]
    reads = list(map(_read_file, tqdm(sources, desc="docstrings")))
    pairs, dropped = _keep_first(outcome for read in reads for outcome in read or ())
    splits = [_split(pair.module) for pair in pairs]
    if missing := [split for split in _SPLITS if split not in splits]:
        found = f"{len(pairs)} pairs of {', '.join(versions)} leave nothing for {missing}"
        raise InputError(f"{found}; every split needs a pair: ask for more packages")
    if failed := [sources[row][0] for row, read in enumerate(reads) if read is None]:
        _log.warning("%d files could not be parsed: %s", len(failed), ", ".join(failed))
    about = {
        "format": _FORMAT,
        "python": platform.python_version(),
        "packages": versions,
        "files": len(sources),
        "files_not_parsed": failed,
        "modules": len({pair.module for pair in pairs}),
        "pairs": len(pairs),
        "splits": {split: splits.count(split) for split in _SPLITS},
        "dropped": dict(sorted(dropped.items())),
    }
    write_parts(
        folder,
        ({"_id": f"t{i}", "title": p.title, "text": p.text} for i, p in enumerate(pairs)),
        ({"_id": f"q{i}", "text": p.query} for i, p in enumerate(pairs)),
        {s: [(f"q{i}", f"t{i}", 1) for i, x in enumerate(splits) if x == s] for s in _SPLITS},
    )
    write_json(folder / "about.json", about)


def package_versions(packages: Sequence[str]) -> dict[str, str]:
    """Find the version of each package, in order, without importing any."""
    if isinstance(packages, str) or not packages:
        raise InputError(f"packages must be a list of one name or more: {packages!r}")
    return {package: _version(package) for package in packages}


def _version(package: str) -> str:
    if package == "stdlib":
        return platform.python_version()
    try:
        if not _roots(package):
            raise ModuleNotFoundError(package)
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # as scikit-learn, imported as sklearn
            names = importlib.metadata.packages_distributions()[package]
            return ",".join(importlib.metadata.version(name) for name in sorted(set(names)))
    except (ImportError, KeyError, ValueError):
        rule = "a package must be 'stdlib' or the top-level import name of an installed package"
        raise InputError(f"cannot find the package {package!r}: {rule}") from None


def _roots(package: str) -> list[str]:
    if package == "stdlib":
        return [sysconfig.get_paths()["stdlib"]]
    # To find the spec of a dotted name would import its parent.
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    return list(spec.submodule_search_locations or []) if spec else []


def _sources(package: str) -> list[_Source]:
    """List the source files of a package without its tests, sorted by module name."""
    sources = []
    prefix = () if package == "stdlib" else (package,)
    for root in _roots(package):
        for folder, subfolders, names in os.walk(root):
            # What is no identifier cannot be imported: `site-packages` and loose scripts.
            subfolders[:] = [n for n in subfolders if n.isidentifier() and n not in _TEST_FOLDERS]
            for name in names:
                importable = name.endswith(".py") and name[:-3].isidentifier()
                if importable and not _TEST_FILE.fullmatch(name):
                    path = Path(folder, name)
                    parts = prefix + path.relative_to(root).with_suffix("").parts
                    module = ".".join(parts[:-1] if name == "__init__.py" else parts)
                    sources.append((module, str(path)))
    return sorted(sources)


def _read_file(source: _Source) -> _Outcomes:
    """Take what each function of a file comes to, or None if the file cannot be parsed."""
    module, path = source
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes are their authors' concern
            tree = ast.parse(Path(path).read_bytes())
        return [_pair(module, name, node) for name, node in _functions(tree.body, module)]
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
        return None


def _functions(nodes: Iterable[ast.AST], prefix: str) -> Iterator[tuple[str, _Function]]:
    """Yield `(qualified name, function)`, in classes and out of them, never in functions."""
    for node in nodes:
        if isinstance(node, _Function):
            yield f"{prefix}.{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}.{node.name}")
        elif isinstance(node, ast.stmt | ast.ExceptHandler):  # inside `if`, `try`, `with`
            yield from _functions(ast.iter_child_nodes(node), prefix)


def _pair(module: str, name: str, node: _Function) -> _Pair | str:
    """Make the pair of one function, or name the rule that drops it."""
    docstring = ast.get_docstring(node)
    if docstring is None:
        return "no docstring"
    paragraph = re.split(r"\n\s*\n", docstring.strip(), maxsplit=1)[0]
    prose = _SECTION.split(paragraph, maxsplit=1)[0]
    query = " ".join(_MARKUP.sub(r"\1\2", prose).split()[:_MAX_WORDS])
    if not (query and query.isascii()) or _NOT_PROSE.match(prose):
        return "not prose"
    if sum(any(map(str.isalpha, word)) for word in query.split()) < _MIN_WORDS:
        return "too short"
    if _NO_DESCRIPTION.match(query):
        return "no description"
    if _name_words(query) <= _name_words(node.name):
        return "repeats name"
    node.body = node.body[1:]
    short = (ast.Pass, ast.Expr, ast.Raise)  # to write others out takes long
    if all(isinstance(s, short) and _TRIVIAL.match(ast.unparse(s)) for s in node.body):
        return "trivial body"
    node.decorator_list = []  # they often carry texts of their own, for documentation
    return _Pair(module, name, query, ast.unparse(node))


def _name_words(text: str) -> set[str]:
    return {word.lower().rstrip("s") for word in _NAME_WORD.findall(text)} - _SMALL_WORDS


def _keep_first(outcomes: Iterable[_Pair | str]) -> tuple[list[_Pair], Counter[str]]:
    """Keep the pairs with a new query and a new target; count what each rule drops."""
    pairs, dropped, seen = list[_Pair](), Counter[str](), set[tuple[str, str]]()
    for outcome in outcomes:
        if isinstance(outcome, str):
            dropped[outcome] += 1
            continue
        keys = [("same query", outcome.query.lower()), ("same target", outcome.text)]
        if repeated := [rule for rule, text in keys if (rule, text) in seen]:
            dropped[repeated[0]] += 1
        else:
            seen.update(keys)
            pairs.append(outcome)
    return pairs, dropped


def _split(module: str) -> str:
    """Draw the split of a whole module from its name: 80% train, 10% dev, 10% test."""
    draw = int.from_bytes(hashlib.blake2b(module.encode(), digest_size=8).digest()) % 10
    return {0: "dev", 1: "test"}.get(draw, "train")
