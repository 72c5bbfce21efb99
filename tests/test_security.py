"""What a file from elsewhere cannot make us do: run code, by pickle, eval, a shell or a model."""

import ast
from pathlib import Path

import pytest
import torch

import unstale
from unstale.cli.main import main

SOURCES = sorted(Path(unstale.__file__).parent.rglob("*.py"))
FORBIDDEN_IMPORTS = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "subprocess"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load"}
SMALL = "--steps 2 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-targets 40"


def calls(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    return [(ast.unparse(n.func), n) for n in ast.walk(tree) if isinstance(n, ast.Call)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_the_package_has_no_way_to_run_what_it_reads(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {n.partition(".")[0] for n in names} & FORBIDDEN_IMPORTS, node.lineno
    for name, call in calls(tree):
        given = {k.arg: ast.unparse(k.value) for k in call.keywords}
        assert name not in FORBIDDEN_CALLS, f"{name} in line {call.lineno}"
        assert given.get("shell", "False") == "False", f"a shell in line {call.lineno}"
        assert given.get("trust_remote_code") != "True", f"line {call.lineno}"
        assert given.get("allow_pickle", "False") == "False", f"line {call.lineno}"
        if name.endswith("torch.load"):
            assert given.get("weights_only") == "True", f"torch.load in line {call.lineno}"
        assert name != "torch.save", f"torch.save pickles: line {call.lineno}"


def test_going_on_reads_no_pickle_that_could_run(
    beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ["--data", str(beir), "--output", str(tmp_path / "run"), "--save-steps", "1"]
    assert main(["train", *where, *SMALL.split()]) == 0
    import shutil

    shutil.rmtree(tmp_path / "run" / "checkpoints" / "checkpoint-2")
    (tmp_path / "run" / "files.json").unlink()  # as if it had been killed before its end
    plain, read = torch.load, []

    def watched(path, *args, **kwargs):
        assert kwargs.get("weights_only") is True, path
        read.append(Path(path).name)
        return plain(path, *args, **kwargs)

    monkeypatch.setattr(torch, "load", watched)
    assert main(["train", "--resume", "--output", str(tmp_path / "run")]) == 0
    assert set(read) == {"optimizer.pt", "scheduler.pt", "rng_state.pth"}
    assert not list((tmp_path / "run").rglob("training_args.bin"))


def test_a_hub_models_own_code_needs_the_flag() -> None:
    from unstale.cli import options

    assert options.Train().trust_remote_code is False
