"""How the building behaves: what it refuses, interrupts, caches."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from unstale.data.docstrings import docstrings_folder
from unstale.errors import InputError


@pytest.mark.parametrize("name", ["no_such_package", "pkg.filler1", "__main__", "unversioned", ""])
def test_unknown_package_is_refused_before_any_work(site, tmp_path, monkeypatch, name):
    monkeypatch.setenv("UNSTALE_CACHE", str(tmp_path / "out"))
    site.install("pkg", {})
    site.write("unversioned", "__init__.py", "")
    with pytest.raises(InputError, match=rf"package '{name}': .* top-level import name"):
        docstrings_folder(["pkg", name])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("packages", ["numpy", [], ()])
def test_packages_must_be_a_list_of_names(packages):
    with pytest.raises(InputError, match="list of one name or more"):
        docstrings_folder(packages)


def test_version_is_found_under_the_name_of_the_distribution(site, build):
    site.install("pkg", {})
    (site.folder / "pkg.dist-info" / "METADATA").unlink()
    (site.folder / "pkg.dist-info" / "top_level.txt").unlink()
    (site.folder / "pkg.dist-info").rmdir()
    site.set_version("pkg", "3.2", distribution="scikit_pkg")
    assert build("pkg").about["packages"] == {"pkg": "3.2"}


def test_a_split_without_pairs_is_refused(site, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSTALE_CACHE", str(tmp_path / "out"))
    site.install("pkg", {}, fillers=1)
    with pytest.raises(InputError, match=r"1 pairs of pkg leave nothing for .*every split"):
        docstrings_folder(["pkg"])
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("writes", range(7))
def test_nothing_is_left_when_the_build_is_interrupted(site, tmp_path, monkeypatch, writes):
    monkeypatch.setenv("UNSTALE_CACHE", str(tmp_path / "out"))
    site.install("pkg", {})
    done = []

    def interrupted(path, mode="r", *args, **kwargs):
        if mode == "w" and len(done) == writes:
            raise KeyboardInterrupt
        if mode == "w":
            done.append(path)
        return plain_open(path, mode, *args, **kwargs)

    plain_open = Path.open
    monkeypatch.setattr(Path, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        docstrings_folder(["pkg"])
    assert list((tmp_path / "out").iterdir()) == []
    monkeypatch.undo()
    assert len(done) == writes


def test_cache_is_built_once_for_each_version(site, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSTALE_CACHE", str(tmp_path / "cache"))
    site.install("pkg", {})
    first = docstrings_folder(["pkg"])
    (first / "mark").touch()
    assert docstrings_folder(["pkg"]) == first
    assert (first / "mark").exists()  # as it was, not built again
    site.set_version("pkg", "2.0")
    second = docstrings_folder(["pkg"])
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
