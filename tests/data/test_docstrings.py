"""What a set of docstrings is built of."""

from collections import Counter

import pytest
from tests.data.installed import FILLERS, files_of

from unstale.data import docstrings
from unstale.data.docstrings import docstrings_folder

SHAPES = '''
import asyncio

@asyncio.coroutine_of("area and its documentation")
def area(width: int, *, height: int = 2) -> int:
    """Compute the area
       of a flat rectangle.

    A second paragraph is no part of the query.
    """
    # comments go too
    return width * height

class Box:
    """A class is no target."""

    class Lid:
        async def open(self):
            """Lift the lid off its box."""
            await self.hinge

    def helper_inside(self):
        """Hold a function that is not a target."""
        def inner():
            """Stay out of the set as a target."""
            return 1
        return inner

try:
    import fast
except ImportError:
    def fallback(x):
        """Replace the fast module by slow code."""
        return x
'''


def test_target_has_signature_and_code_but_no_docstring(site, build):
    site.install("shapes", {"plane/flat.py": SHAPES})
    pairs = build("shapes").of("shapes.plane.flat")
    assert pairs.pop("shapes.plane.flat.Box.helper_inside")
    assert pairs == {
        "shapes.plane.flat.area": (
            "Compute the area of a flat rectangle.",
            "def area(width: int, *, height: int=2) -> int:\n    return width * height",
        ),
        "shapes.plane.flat.Box.Lid.open": (
            "Lift the lid off its box.",
            "async def open(self):\n    await self.hinge",
        ),
        "shapes.plane.flat.fallback": (
            "Replace the fast module by slow code.",
            "def fallback(x):\n    return x",
        ),
    }


def test_init_module_is_named_by_its_package(site, build):
    source = 'def f(x):\n    """Say what a package does."""\n    return x\n'
    site.install("shapes", {"plane/__init__.py": source})
    assert list(build("shapes").of("shapes.plane")) == ["shapes.plane.f"]


@pytest.mark.parametrize(
    ("docstring", "query"),
    [
        ("Sort the rows by key.\nArgs:\n    rows: what to sort", "Sort the rows by key."),
        ("Sort the rows by key.\n:param rows: what", "Sort the rows by key."),
        ("Sort the rows by key.\n>>> sort([2, 1])", "Sort the rows by key."),
        ("Sort :class:`~a.Rows` of [`Table`] by ``key``.", "Sort a.Rows of Table by key."),
        ("See if the rows are sorted.", "See if the rows are sorted."),
        ("Sort " + "again " * 80, "Sort" + " again" * 59),
    ],
)
def test_query_is_the_prose_of_the_first_paragraph(site, build, docstring, query):
    site.install("pkg", {"mod.py": f'def f(x):\n    """{docstring}"""\n    return x\n'})
    assert build("pkg").of("pkg.mod")["pkg.mod.f"][0] == query


GOOD = '"""Explain in enough words."""'


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        ("no docstring", "def f(x):\n    return x"),
        ("not prose", 'def f(x):\n    """f(x, y) -> the sum of both"""\n    return x'),
        ("not prose", 'def f(x):\n    """x (`int`): the number to sum up"""\n    return x'),
        ("not prose", 'def f(x):\n    """Args:\n        x: the number to sum up"""\n    return x'),
        ("not prose", 'def f(x):\n    """rule = *(other / rule) and so on"""\n    return x'),
        ("not prose", 'def f(x):\n    """Explain the na\\u00efve rule here."""\n    return x'),
        ("not prose", 'def f(x):\n    """ """\n    return x'),
        ("too short", 'def f(x):\n    """Explain too little."""\n    return x'),
        ("too short", 'def f(x):\n    """Return a + b - 1."""\n    return x.y'),
        ("no description", 'def f(x):\n    """TODO explain this one day."""\n    return x'),
        ("no description", 'def f(x):\n    """Add up. Deprecated since long ago."""\n    return x'),
        ("no description", 'def f(x):\n    """See the base class instead."""\n    return x'),
        ("no description", 'def f(x):\n    """Alias of the other function."""\n    return x'),
        ("repeats name", 'def sortTableRows(x):\n    """Sort the rows of the table."""\n    x()'),
        ("trivial body", f"def f(x):\n    {GOOD}"),
        ("trivial body", f"def f(x):\n    {GOOD}\n    pass"),
        ("trivial body", f"def f(x):\n    {GOOD}\n    ..."),
        ("trivial body", f"def f(x):\n    {GOOD}\n    raise NotImplementedError('later')"),
    ],
)
def test_poor_functions_are_dropped_and_counted(site, build, rule, source):
    site.install("pkg", {"mod.py": source})
    built = build("pkg")
    assert built.of("pkg.mod") == {}
    assert built.about["dropped"] == {rule: 1}
    assert built.about["pairs"] == FILLERS


def test_first_of_equal_queries_and_of_equal_targets_is_kept(site, build):
    first = 'def f(x):\n    """Explain in enough words."""\n    return x\n'
    same_query = 'def f(x):\n    """explain in ENOUGH words."""\n    return x + 1\n'
    same_target = 'def f(x):\n    """Explain in some other words."""\n    return x\n'
    site.install("one", {"b.py": first, "c.py": same_query, "d.py": same_target})
    site.install("two", {"a.py": first}, fillers=0)
    built = build("one", "two")
    assert built.about["dropped"] == {"same query": 2, "same target": 1}
    assert list(built.of("one.b")) == ["one.b.f"]
    assert built.of("one.c") == built.of("one.d") == built.of("two.a") == {}


def test_order_of_packages_decides_which_is_first(site, build):
    source = 'def f(x):\n    """Explain in enough words."""\n    return x\n'
    site.install("one", {"a.py": source})
    site.install("two", {"a.py": source}, fillers=0)
    built = build("two", "one")
    assert list(built.of("two.a")) == ["two.a.f"]
    assert list(built.about["packages"]) == ["two", "one"]
    assert built.of("one.a") == {}


def test_no_module_is_in_two_splits(site, build):
    function = 'def f{0}(x):\n    """Explain part {0} of module {1}."""\n    return x + {0} - {1}\n'
    files = {
        f"mod{module}.py": "".join(function.format(part, module) for part in range(4))
        for module in range(100)
    }
    site.install("pkg", files, fillers=0)
    built = build("pkg")
    splits = {}
    for split, title, _, _ in built.pairs:
        splits.setdefault(title.rpartition(".")[0], set()).add(split)
    assert len(splits) == 100
    assert all(len(found) == 1 for found in splits.values())
    counts = Counter(split for split, *_ in built.pairs)
    assert built.about["splits"] == dict(counts)
    assert sum(counts.values()) == built.about["pairs"] == len(built.targets) == 400
    assert counts["train"] > 250
    assert min(counts["dev"], counts["test"]) >= 12


def test_split_of_a_module_is_fixed_for_ever():
    expected = {"json.decoder": "dev", "shutil": "train", "abc": "test"}
    assert {name: docstrings._split(name) for name in expected} == expected


def test_the_same_source_gives_the_same_files(site, tmp_path, monkeypatch):
    site.install("shapes", {"plane/flat.py": SHAPES, "bad.py": "def ("})
    built = []
    for name in ("first", "second"):
        monkeypatch.setenv("UNSTALE_CACHE", str(tmp_path / name))
        built.append(files_of(docstrings_folder(["shapes"])))
    assert built[0] == built[1]
    assert len(built[0]) == 7  # with their seal


def test_files_that_do_not_parse_are_counted_and_left_out(site, build, caplog):
    good = 'def f(x):\n    """Explain in enough words."""\n    return "\\d"\n'
    broken = {"syntax.py": "def (", "null.py": b"x = 1\0", "encoding.py": b"x = '\xff'"}
    site.install("pkg", {"good.py": good, **broken})
    built = build("pkg")
    assert built.about["files_not_parsed"] == ["pkg.encoding", "pkg.null", "pkg.syntax"]
    assert built.about["files"] == FILLERS + 5  # with __init__.py
    assert list(built.of("pkg.good")) == ["pkg.good.f"]
    assert "3 files could not be parsed" in caplog.text


def test_test_files_and_loose_scripts_are_skipped(site, build):
    source = 'def f(x):\n    """Explain in enough words."""\n    return x\n'
    skipped = ["tests/a.py", "sub/test/a.py", "test_a.py", "a_test.py", "conftest.py", "a-b.py"]
    site.install("pkg", dict.fromkeys(skipped, source))
    assert build("pkg").about["files"] == FILLERS + 1


def test_stdlib_is_listed_without_tests_and_site_packages():
    modules = dict(docstrings._sources("stdlib"))
    assert {"ast", "json", "json.decoder", "unittest.mock"} <= modules.keys()
    parts = {part for module in modules for part in module.split(".")}
    assert not parts & {"test", "tests", "idlelib", "lib2to3", "site-packages", "pip", "pytest"}
