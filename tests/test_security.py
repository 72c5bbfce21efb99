"""What a file from elsewhere cannot make us do: run code, by pickle, eval, a shell or a model."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import unstale
from unstale.cli.config import read_flags, save_config
from unstale.cli.main import main, parse
from unstale.cli.options import TrainFlags

SOURCES = sorted(Path(unstale.__file__).parent.rglob("*.py"))
SMALL = "--steps 2 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-targets 40"


# Pickle, eval and shells in the package are refused by ruff: its S rules, and `banned-api`.
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_the_package_never_lets_a_file_or_a_model_run_code(path: Path) -> None:
    source = path.read_text("utf-8").replace(" ", "")
    assert "trust_remote_code=True" not in source
    assert "allow_pickle=True" not in source


def test_going_on_reads_no_pickle_that_could_run(
    small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = [*small, "--output", str(tmp_path / "run"), "--save-steps", "1"]
    assert main(["train", *where, *SMALL.split()]) == 0
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


CONSENTS = ["trust_remote_code: true", "overwrite: true", "trust-remote-code: yes"]
CONSENTS += ["train: {trust_remote_code: true}", "train.trust_remote_code: true"]


@pytest.mark.parametrize("text", CONSENTS)
def test_no_file_can_agree_in_place_of_the_user(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"# unstale train\n{text}\nsteps: 3\n")
    flags = read_flags(path)
    assert flags.pop("steps") == 3
    assert flags in ({}, {"train": {}})
    assert "is ignored: a file cannot agree to it" in caplog.text
    if "train" not in text:
        parsed = parse(["train", "--config", str(path), "--output", "x"])["train"]
        assert parsed.steps == 3
        assert not parsed.trust_remote_code
        assert not parsed.overwrite
    typed = parse(["train", "--config", str(path), "--trust-remote-code"])["train"]
    assert typed.trust_remote_code


def hostile_run(folder: Path, beir: Path) -> Path:
    """Write a run folder whose model is code that leaves a mark, and whose flags agree to it."""
    model = folder / "model"
    model.mkdir(parents=True)
    (model / "own.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
        f"Path({str(folder / 'ran')!r}).touch()\nclass Own: pass\n"
    )
    modules = [{"idx": 0, "name": "0", "path": "", "type": "own.Own"}]
    (model / "modules.json").write_text(json.dumps(modules))
    flags = f"data: {beir}\nmodel: {model}\noutput: {folder}\ntrust_remote_code: true\n"
    (folder / "config.yaml").write_text(f"# unstale train\n{flags}")
    return folder


@pytest.mark.parametrize(
    "words",
    ["search query --run", "serve --port 0", "train --resume --output"],
    ids=lambda words: words.split()[0],
)
def test_a_run_folder_cannot_make_its_own_code_run(
    words: str, beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = hostile_run(tmp_path / "run", beir)
    assert main([*words.split(), str(run)]) == 2
    assert not (run / "ran").exists()
    assert "runs only with --trust-remote-code" in capsys.readouterr().err


def test_consent_is_not_kept_for_the_next_command(tmp_path: Path) -> None:
    given = TrainFlags(output=str(tmp_path), trust_remote_code=True, overwrite=True)
    save_config(tmp_path, "train", given)
    assert not {"trust_remote_code", "overwrite"} & read_flags(tmp_path / "config.yaml").keys()
    assert "trust" not in (tmp_path / "config.yaml").read_text()
    assert TrainFlags().trust_remote_code is False
