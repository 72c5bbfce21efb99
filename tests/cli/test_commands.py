"""Every command follows from its class of flags; bad numbers are refused before anything loads."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from unstale.cli.flags import about, helps, known_flags
from unstale.cli.main import COMMANDS, main


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_its_module_and_its_sentence(name: str) -> None:
    assert find_spec(f"unstale.cli.{name}") is not None
    summary, more = about(COMMANDS[name])
    assert summary.endswith(".")
    assert more.endswith(".")
    assert "Args" not in more
    assert known_flags(COMMANDS[name])
    assert "" not in helps(COMMANDS[name]).values()


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("search query --k 0", "--k must be at least 1, got 0"),
        ("serve runs/demo --k 0", "--k must be at least 1, got 0"),
        ("plan --targets 0", "--targets must be at least 1, got 0"),
        ("plan --flops 0 --parameters 1e8", "--flops must be above 0, got 0.0"),
        ("mine --hard-negatives 0", "--hard-negatives must be at least 1, got 0"),
        ("train --steps -1", "--steps must be at least 0, got -1"),
    ],
)
def test_a_number_out_of_its_bounds_is_refused(
    words: str, rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err == f"unstale {words.split()[0]}: error: {rule}\n"


def test_bounds_do_not_wait_for_torch() -> None:
    code = "import sys; from unstale.cli.main import main; code = main(sys.argv[1:]); "
    code += "print(code, 'torch' in sys.modules)"
    words = [sys.executable, "-c", code, "train", "--steps", "0"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert shown == "2 False\n"
