import importlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from unstale.data import docstrings
from unstale.data.docstrings import build_docstrings, docstrings_folder
from unstale.errors import InputError

FILLERS = 60  # modules enough that every split has some


class Site:
    """A folder of installed packages, made up for a test."""

    def __init__(self, folder):
        self.folder = folder

    def install(self, package, files, version="1.0", fillers=FILLERS):
        self.write(package, "__init__.py", "raise RuntimeError('a package must not be imported')")
        for number in range(fillers):
            source = (
                f'def f():\n    """Fill up with {package} number {number}."""\n    {number}+x\n'
            )
            self.write(package, f"filler{number}.py", source)
        for path, source in files.items():
            self.write(package, path, source)
        self.set_version(package, version)

    def write(self, package, path, source):
        file = self.folder / package / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(source if isinstance(source, bytes) else source.encode())

    def set_version(self, package, version, distribution=None):
        metadata = self.folder / f"{distribution or package}.dist-info"
        metadata.mkdir(exist_ok=True)
        name = distribution or package
        (metadata / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        (metadata / "top_level.txt").write_text(f"{package}\n")
        importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return Site(tmp_path / "site")


@pytest.fixture
def build(tmp_path):
    def build(*packages, workers=1):
        folder = tmp_path / "built"
        build_docstrings(folder, packages, workers=workers, progress=False)
        return Built(folder)

    return build


class Built:
    """A built set, read back by its format alone."""

    def __init__(self, folder):
        self.about = json.loads((folder / "about.json").read_text())
        self.targets = {row["_id"]: row for row in json_lines(folder / "corpus.jsonl")}
        self.queries = {row["_id"]: row["text"] for row in json_lines(folder / "queries.jsonl")}
        self.pairs = []  # (split, title, query, text)
        for split in ("train", "dev", "test"):
            header, *rows = (folder / "qrels" / f"{split}.tsv").read_text().splitlines()
            assert header == "query-id\tcorpus-id\tscore"
            for row in rows:
                query, target, score = row.split("\t")
                assert score == "1"
                target = self.targets[target]
                self.pairs.append((split, target["title"], self.queries[query], target["text"]))

    def of(self, module):
        """Return `title: (query, text)` of a module's pairs."""
        return {t: (q, text) for _, t, q, text in self.pairs if t.startswith(f"{module}.")}


def json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def files_of(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


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


def test_output_does_not_depend_on_the_number_of_workers(site, tmp_path):
    site.install("shapes", {"plane/flat.py": SHAPES, "bad.py": "def ("})
    built = []
    for workers in (1, 2):
        folder = tmp_path / f"built{workers}"
        build_docstrings(folder, ["shapes"], workers=workers, progress=False)
        built.append(files_of(folder))
    assert built[0] == built[1]
    assert len(built[0]) == 6


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


@pytest.mark.parametrize("name", ["no_such_package", "pkg.filler1", "__main__", "unversioned", ""])
def test_unknown_package_is_refused_before_any_work(site, tmp_path, name):
    site.install("pkg", {})
    site.write("unversioned", "__init__.py", "")
    with pytest.raises(InputError, match=rf"package '{name}': .* top-level import name"):
        build_docstrings(tmp_path / "out" / "built", ["pkg", name], progress=False)
    with pytest.raises(InputError, match=rf"package '{name}'"):
        docstrings_folder(["pkg", name], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("packages", ["numpy", [], ()])
def test_packages_must_be_a_list_of_names(tmp_path, packages):
    with pytest.raises(InputError, match="list of one name or more"):
        build_docstrings(tmp_path / "built", packages)


def test_version_is_found_under_the_name_of_the_distribution(site, build):
    site.install("pkg", {})
    (site.folder / "pkg.dist-info" / "METADATA").unlink()
    (site.folder / "pkg.dist-info" / "top_level.txt").unlink()
    (site.folder / "pkg.dist-info").rmdir()
    site.set_version("pkg", "3.2", distribution="scikit_pkg")
    assert build("pkg").about["packages"] == {"pkg": "3.2"}


def test_a_split_without_pairs_is_refused(site, tmp_path):
    site.install("pkg", {}, fillers=1)
    with pytest.raises(InputError, match=r"1 pairs of pkg leave nothing for .*every split"):
        build_docstrings(tmp_path / "built", ["pkg"], progress=False)
    assert not (tmp_path / "built").exists()


def test_fewer_than_one_worker_is_refused(tmp_path):
    with pytest.raises(InputError, match="workers must be at least 1: 0"):
        build_docstrings(tmp_path / "built", workers=0)


def test_an_existing_folder_is_refused_and_left_alone(site, tmp_path):
    site.install("pkg", {})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="mine exists"):
        build_docstrings(tmp_path / "mine", ["pkg"], progress=False)
    assert files_of(tmp_path / "mine") == {Path("thesis.txt"): b"years of work"}


@pytest.mark.parametrize("writes", range(6))
def test_nothing_is_left_when_the_build_is_interrupted(site, tmp_path, monkeypatch, writes):
    site.install("pkg", {})
    done = []

    def interrupted(path, *args, **kwargs):
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(path)
        return write_text(path, *args, **kwargs)

    write_text = Path.write_text
    monkeypatch.setattr(Path, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_docstrings(tmp_path / "out" / "built", ["pkg"], workers=1, progress=False)
    assert list((tmp_path / "out").iterdir()) == []
    monkeypatch.undo()
    assert len(done) == writes


def test_cache_is_built_once_for_each_version(site, tmp_path):
    site.install("pkg", {})
    first = docstrings_folder(["pkg"], tmp_path / "cache")
    (first / "mark").touch()
    assert docstrings_folder(["pkg"], tmp_path / "cache") == first
    assert (first / "mark").exists()  # as it was, not built again
    site.set_version("pkg", "2.0")
    second = docstrings_folder(["pkg"], tmp_path / "cache")
    assert second != first
    assert json.loads((second / "about.json").read_text())["packages"] == {"pkg": "2.0"}
    assert sorted((tmp_path / "cache").iterdir()) == sorted([first, second])


def test_cache_is_by_default_in_the_folder_of_the_environment(site, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSTALE_CACHE", str(tmp_path / "elsewhere"))
    site.install("pkg", {})
    assert docstrings_folder(["pkg"]).parent == tmp_path / "elsewhere"


def test_module_needs_no_torch():
    check = "import sys, unstale.data.docstrings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_script_without_main_guard_falls_back_to_one_process(site, tmp_path):
    site.install("pkg", {})
    script = tmp_path / "script.py"
    script.write_text(
        f"import pathlib, sys\nsys.path.insert(0, {str(site.folder)!r})\n"
        "from unstale.data.docstrings import build_docstrings\n"
        f"build_docstrings(pathlib.Path({str(tmp_path / 'built')!r}), ['pkg'], workers=2)\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "using one process" in run.stderr
    assert Built(tmp_path / "built").about["pairs"] == FILLERS
