"""Every command on a second device, in one process and in two; searches that do not wait for it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.devices.on_strict import run_all
from tests.test_processes import torchrun

from unstale.cli import main as cli
from unstale.miners import strategies

pytestmark = pytest.mark.slow
if not all(map(shutil.which, ("g++", "ninja"))):
    pytest.skip("the strict device is compiled, by g++ and ninja", allow_module_level=True)

SMALL = """--steps 4 --batch-size 8 --corrector-hidden 24 --probe-queries 8 --probe-targets 40
--layers 1 --towers separate --learning-rate 1e-3 --refreshes 2 --save-steps 2
--trainer.adam_epsilon 1e-3""".split()
MORE = {
    "rolling": "--strategy corrected --search rolling",
    "ivf": "--strategy corrected --search ivf",
    "mapped": "--strategy corrected --mapped",
    "int8": "--strategy corrected --dtype int8 --no-memory",
    "gumbel": "--strategy corrected --sampling gumbel --mini-batch-size 4 --eval-steps 2",
    "filters": "--strategy corrected --relative-margin 0.05 --cross-encoder CROSS",
}
REFILLED = ["--relative-margin", "0.05", "--short", "refill"]  # or a random encoder leaves none
# What torchrun can start, in two processes: every strategy that does not need one.
SHARED = [n for n, s in strategies().items() if not s.one_process] + ["rolling", "ivf", "filters"]
OTHERS = ["embed", "evaluate", "mine", "correct", "rag", "marginal", "compare"]


def commands(
    folder: Path, data: Path, bert: Path, cross: Path, device: str
) -> dict[str, list[str]]:
    """List command lines by name; a later one may read what an earlier one wrote."""
    base = ["--data", str(data), "--device", device]
    model = [*base, "--model", str(bert)]
    found = {name: ["train", *model, *SMALL, "--strategy", name] for name in strategies()}
    found |= {
        name: ["train", *model, *SMALL, *flags.replace("CROSS", str(cross)).split()]
        for name, flags in MORE.items()
    }
    rag = ["rag", *base, "--retriever", str(bert), *SMALL, "--k", "2", "--reader-max-length", "48"]
    old = ["--vectors", str(folder / "embed"), "--count", "80", "--re-embed", "10"]
    found |= {
        "embed": ["embed", *model, "--target-prompt", "it: "],
        "evaluate": ["evaluate", *model],
        "mine": ["mine", *model, "--hard-negatives", "3", *REFILLED],
        "correct": ["correct", *model, *old],
        "rag": [*rag, "--strategy", "corrected"],
        "marginal": [*rag, "--strategy", "exhaustive", "--fusion", "marginal"],
        "compare": ["compare", *model, *SMALL, "--strategies", "stale,corrected", "--seeds", "0"],
    }
    found = {name: [*words, "--output", str(folder / name)] for name, words in found.items()}
    trained = str(folder / "corrected")
    again = ["mine", "--run", trained, "--hard-negatives", "3", "--device", device]
    question = "which river was old?"
    return found | {
        "mine a run": [*again, "--output", str(folder / "mined")],
        "search": ["search", question, "--run", trained, "--k", "3"],
        "answer": ["answer", question, "--run", str(folder / "rag")],
    }


@pytest.fixture(scope="module")
def places(
    tmp_path_factory: pytest.TempPathFactory, beir: Path, bert_folder: Path, write_cross_encoder
) -> tuple[Path, Path, Path, Path]:
    made = tmp_path_factory.mktemp("strict")
    return made, beir, bert_folder, write_cross_encoder(made / "cross")


def strictly(path: Path, listed: dict[str, list[str]]) -> dict[str, tuple[int, str]]:
    """Run commands on the strict device, in a process of its own."""
    path.write_text(json.dumps(listed))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    subprocess.run(
        [sys.executable, "-m", "tests.devices.on_strict", str(path)],
        env=environment, capture_output=True, text=True, check=False, timeout=1500,
    )  # fmt: skip
    return json.loads(path.with_suffix(".done.json").read_text())


def metrics(folder: Path) -> dict[str, float]:
    found = json.loads((folder / "results.json").read_text())
    if "validation" in found:
        return {name: interval["value"] for name, interval in found["validation"].items()}
    return found["runs"][-1]["metrics"]


@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore")
def test_every_command_runs_on_a_strict_device_and_finds_what_it_finds_on_the_cpu(
    places: tuple[Path, Path, Path, Path],
) -> None:
    made, *rest = places
    done = strictly(made / "one.json", commands(made / "strict", *rest, "strict"))
    assert {name: said for name, (code, said) in done.items() if code} == {}
    some = {"corrected", "exhaustive", "rolling", "evaluate", "embed", "correct", "rag"}
    listed = commands(made / "cpu", *rest, "cpu")
    done = run_all({name: words for name, words in listed.items() if name in some})
    assert {name: said for name, (code, said) in done.items() if code} == {}
    for name in some - {"embed"}:
        ours, theirs = metrics(made / "strict" / name), metrics(made / "cpu" / name)
        assert ours == pytest.approx(theirs, abs=0.051), name


@pytest.mark.timeout(1800)
def test_every_command_that_can_be_shared_runs_over_a_group_that_refuses_tensors_of_the_cpu(
    places: tuple[Path, Path, Path, Path],
) -> None:
    made, *rest = places
    listed = commands(made / "two", *rest, "strict")
    chosen = {name: words for name, words in listed.items() if name in [*SHARED, *OTHERS]}
    assert {words[0] for words in chosen.values()} == set(cli.SHARED)  # all that torchrun can start
    path = made / "two.json"
    path.write_text(json.dumps(chosen))
    torchrun(2, "-m", "tests.devices.on_strict", str(path), timeout=1500)
    done = json.loads(path.with_suffix(".done.json").read_text())
    assert done.keys() == chosen.keys()
    assert {name: said for name, (code, said) in done.items() if code} == {}


def test_operands_of_two_devices_are_refused_and_searches_do_not_wait() -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "tests.devices.check_strict"],
        env=environment, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
