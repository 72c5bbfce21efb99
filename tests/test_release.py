"""What is released: one version everywhere, a wheel with everything, a help that does not wait."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from unstale import __version__
from unstale.cli.main import COMMANDS, main, parser

ROOT = Path(__file__).parent.parent
HEAVY = "torch numpy pyarrow datasets transformers sentence_transformers scipy rich".split()


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert __version__ == project["version"] == citation["version"]
    assert citation["license"] == project["license"]
    extras = project["optional-dependencies"]
    assert {"faiss", "offline", "mteb", "dev"} <= extras.keys()
    described = (ROOT / "docs" / "release.md").read_text()
    for name in extras:
        assert f"`{name}`" in described, name


def test_every_command_is_in_the_readme() -> None:
    shown = (ROOT / "README.md").read_text()
    for name in COMMANDS:
        assert f"`unstale {name}" in shown, name


def test_help_loads_nothing_heavy() -> None:
    code = "import sys\nfrom unstale.cli.main import main\ntry: main(['--help'])\n"
    code += f"except SystemExit: print(sorted(set({HEAVY}) & set(sys.modules)))"
    words = [sys.executable, "-c", code]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "commands:" in shown
    assert shown.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", ["compare", "train"])
def test_no_flag_may_be_abbreviated(name: str, tmp_path: Path, capsys) -> None:
    assert main([name, "--k", "5", "--output", str(tmp_path / "out")]) == 2  # --keep-checkpoints
    assert "--k" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_flags(shell: str, capsys) -> None:
    pytest.importorskip("shtab", reason="shtab is not installed: make install")
    with pytest.raises(SystemExit, match="0"):
        main(["--print_completion", f"shtab-{shell}"])
    parser.cache_clear()  # a parser that made a script cannot parse any more
    script = capsys.readouterr().out
    for word in ("compare", "doctor", "--keep-checkpoints", "--corrector-hidden"):
        assert word in script
    if shell == "bash":  # complete `unstale do` as bash would
        ask = 'COMP_WORDS=(unstale do) COMP_CWORD=1; _shtab_unstale; echo "${COMPREPLY[@]}"'
        whole = f"{script}\n{ask}"
        found = subprocess.run(["bash", "-c", whole], capture_output=True, text=True, check=True)
        assert found.stdout.split() == ["doctor"]


@pytest.mark.slow
def test_the_wheel_works_where_nothing_of_ours_is(tmp_path: Path) -> None:
    """Install the wheel in a new environment that sees this one's dependencies only."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("py.typed", "report/page.css", "report/page.html", "serve/page.css"):
        assert f"unstale/{name}" in names
    assert not [name for name in names if "experiments" in name]  # they are of the checkout only
    assert not [name for name in names if not re.match(r"unstale(-[\d.]+\.dist-info)?/", name)]
    place = tmp_path / "empty"
    venv.create(place, with_pip=False)
    site = next(place.glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    install = [sys.executable, "-m", "pip", "--python", str(place / "bin/python"), "install"]
    subprocess.run([*install, "--no-deps", "-q", str(wheel)], check=True)
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    shown = subprocess.run(
        [place / "bin" / "unstale", "--help"],
        capture_output=True, text=True, check=True, env=clean, cwd=tmp_path,
    ).stdout  # fmt: skip
    assert "doctor" in shown
    code = "import unstale; print(unstale.__file__)"
    where = [place / "bin" / "python", "-c", code]
    found = subprocess.run(
        where, capture_output=True, text=True, check=True, env=clean, cwd=tmp_path
    )
    assert str(place) in found.stdout
