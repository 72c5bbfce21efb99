"""bfloat16 on a processor that announces AMX and dies of it: found out, and helped or refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer
from tests.processors import (
    DIES,
    DIES_OF_AMX,
    WITH_AMX,
    WITHOUT_AMX,
    processor,
    run_on_processor,
)

from unstale import bfloat16
from unstale.bfloat16 import LIMIT, VARIABLE, ensure_bfloat16, killed_by
from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError
from unstale.training.job import train

BF16 = ("--trainer.bf16", "true")
SMALL = "--steps 2 --batch-size 8 --corrector-hidden 8 --probe-targets 40 --device cpu"


def command(*words: str | Path) -> str:
    """Return a script that runs a command and then prints how oneDNN is limited."""
    return (
        "import os, sys; from unstale.cli.main import main; "
        f"code = main({list(map(str, words))!r}); "
        f"print('limit:', os.environ.get({VARIABLE!r})); sys.exit(code)"
    )


@pytest.mark.usefixtures("bfloat16")
def test_the_real_probe_survives_where_bfloat16_runs() -> None:
    assert killed_by(os.environ.get(VARIABLE, "")) is None


@pytest.mark.usefixtures("bfloat16")
def test_the_real_probe_multiplies_in_bfloat16_by_onednn() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", bfloat16._PROGRAM],
        env=os.environ | {"ONEDNN_VERBOSE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    if not any("isa:" in line and "bfloat16" in line for line in lines):
        pytest.skip("oneDNN knows no bfloat16 on this processor")
    multiplied = [line for line in lines if ",exec,cpu,matmul," in line]
    assert sum("src:bf16" in line and "wei:bf16" in line for line in multiplied) >= 6


def test_a_program_that_only_fails_was_not_killed(tmp_path: Path) -> None:
    with processor(tmp_path, "raise SystemExit(3)"):
        assert killed_by("") is None
    with processor(tmp_path, DIES):
        assert killed_by("") == "Illegal instruction"


@pytest.mark.parametrize(
    ("flags", "limit", "probes"),
    [(WITHOUT_AMX, None, 0), ("", None, 0), (WITH_AMX, "AVX2", 0), (WITH_AMX, None, 1)],
    ids=["no AMX", "no flags", "limit set", "AMX"],
)
def test_a_healthy_processor_is_probed_once_if_it_has_amx_and_otherwise_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, limit: str | None, probes: int
) -> None:
    ran = tmp_path / "ran"
    ran.touch()
    with processor(tmp_path, f"open({str(ran)!r}, 'a').write('x')", flags):
        if limit:
            monkeypatch.setenv(VARIABLE, limit)
        ensure_bfloat16()
        ensure_bfloat16()
        assert ran.read_text() == "x" * probes
        assert os.environ.get(VARIABLE) == limit


def test_a_system_without_cpuinfo_is_not_probed(tmp_path: Path) -> None:
    with processor(tmp_path, DIES):
        (tmp_path / "cpuinfo").unlink()
        ensure_bfloat16()


@pytest.mark.usefixtures("bfloat16")
def test_the_command_line_limits_the_instruction_set_warns_and_trains(
    beir: Path, tmp_path: Path
) -> None:
    words = ("train", "--data", beir, "--output", tmp_path / "run", *SMALL.split(), *BF16)
    ran = run_on_processor(tmp_path, command(*words))
    assert ran.returncode == 0, ran.stderr
    assert f"limit: {LIMIT}" in ran.stdout
    assert ran.stderr.count("a probe died (Illegal instruction)") == 1
    assert f"{VARIABLE}={LIMIT} is now set" in ran.stderr
    (entry,) = json.loads((tmp_path / "run" / "results.json").read_text())["runs"]
    assert entry["steps"] == 2


def test_every_training_command_limits_for_bf16_on_the_cpu_and_for_nothing_else(
    tmp_path: Path,
) -> None:
    """In one process, with `print` for what each command runs, so that torch is not imported."""
    flags = tmp_path / "flags.yaml"
    flags.write_text("trainer:\n  bf16: true\n")
    asked = [
        *([name, "--config", str(flags)] for name in ("train", "compare", "rag")),
        ["train", "--device", "cpu", *BF16],
    ]
    others = [["train"], ["train", "--trainer.bf16", "false"]]
    script = f"""
import os, sys
from types import SimpleNamespace
from unstale.cli.main import main
for name in ("train", "compare", "rag"):
    sys.modules["unstale.cli." + name] = SimpleNamespace(run=print)
for words in {asked + others!r}:
    assert main([*words, "--output", "run"]) == 0
    print("limit:", os.environ.pop({VARIABLE!r}, None))
assert "torch" not in sys.modules
"""
    ran = run_on_processor(tmp_path, script)
    assert ran.returncode == 0, ran.stderr
    limits = [line for line in ran.stdout.splitlines() if line.startswith("limit:")]
    assert limits == [f"limit: {LIMIT}"] * len(asked) + ["limit: None"] * len(others)


def test_the_command_line_refuses_bf16_that_no_limit_helps(beir: Path, tmp_path: Path) -> None:
    words = ("train", "--data", beir, "--output", tmp_path / "run", *SMALL.split(), *BF16)
    ran = run_on_processor(tmp_path, command(*words), DIES)
    assert ran.returncode == 2
    assert f"even with {VARIABLE}={LIMIT}; train in float32 (leave out bf16)" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "limit: None" in ran.stdout
    assert not (tmp_path / "run").exists()


def test_in_python_the_error_names_the_variable_for_torch_is_loaded(
    dataset: RetrievalDataset, static_model: SentenceTransformer, tmp_path: Path
) -> None:
    rule = f"set {VARIABLE}={LIMIT} in the environment before Python starts"
    with processor(tmp_path):
        with pytest.raises(InputError, match=rule):
            train(dataset, static_model, tmp_path / "run", trainer={"bf16": True})
        assert VARIABLE not in os.environ
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("probe", "outcome", "limit"),
    [(DIES_OF_AMX, "1 passed", LIMIT), (DIES, "leave out bf16", None)],
    ids=["limit", "skip"],
)
@pytest.mark.usefixtures("bfloat16")
def test_these_tests_limit_the_instruction_set_themselves_or_skip(
    tmp_path: Path, probe: str, outcome: str, limit: str | None
) -> None:
    # Without addopts: the type checker cannot be put into a package that is imported already.
    words = ["-o", "addopts=", "-p", "no:cacheprovider", "--import-mode=importlib", "-rs"]
    words += ["tests/drop_in/test_features.py", "-k", "test_bfloat16_in_mini_batches"]
    script = f"import os, sys, pytest; code = pytest.main({words!r}); "
    script += f"print('limit:', os.environ.get({VARIABLE!r})); sys.exit(code)"
    ran = run_on_processor(tmp_path, script, probe)
    assert ran.returncode == 0, ran.stdout
    assert outcome in ran.stdout
    assert f"limit: {limit}" in ran.stdout
