"""Only what unstale wrote is ever removed, and only regular files are replaced."""

import os
from pathlib import Path

import pytest

from unstale.cli import demo
from unstale.cli.config import save_config
from unstale.cli.folders import check_output
from unstale.cli.main import main
from unstale.cli.options import ConvertFlags, DemoFlags, EvaluateFlags, TrainFlags
from unstale.cli.options_inspect import CorrectFlags
from unstale.cli.output import run_folder
from unstale.errors import InputError, RunError
from unstale.files import atomic_file, atomic_folder, scratch_beside, write_json
from unstale.integrity import SEAL
from unstale.locks import release
from unstale.results import RunResult
from unstale.written import LIST, foreign, keep_list, remove_written, sweep, written

RESULT = RunResult(strategy="stale", metrics={"recall@10": 0.5}, steps=7)


@pytest.fixture(autouse=True)
def locks():
    yield
    release()


def finish(output: Path, **flags: object) -> Path:
    """Do what `unstale train` does to a folder, without training."""
    with run_folder("train", TrainFlags(output=str(output), **flags)) as run:
        made = run.begin()
        with atomic_folder(made / "model") as model:
            (model / "1_Pooling").mkdir()
            (model / "1_Pooling" / "config.json").write_text("{}")
        write_json(made / "buffer" / "manifest.json", {})
        run.finish({"name": "world"}, [RESULT])
    release()
    return output


def files(folder: Path) -> set[str]:
    return {
        p.relative_to(folder).as_posix()
        for p in folder.rglob("*")
        if not p.is_dir() or p.is_symlink()
    }


def test_a_run_is_overwritten_by_its_list(tmp_path: Path) -> None:
    run = finish(tmp_path / "run")
    before = files(run)
    assert {"config.yaml", "results.json", SEAL, "model/1_Pooling/config.json"} <= before
    assert foreign(run) == []
    assert files(finish(run, overwrite=True)) == before


@pytest.mark.parametrize(
    "name", ["thesis.tex", ".git/config", "model/notes.md", "buffer/deep/a", ".notes.old", "link"]
)
def test_overwrite_refuses_a_folder_with_anything_else(name: str, tmp_path: Path) -> None:
    run, kept = finish(tmp_path / "run"), tmp_path / "kept"
    kept.mkdir()
    (kept / "a").write_text("mine")
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    if name == "link":
        (run / name).symlink_to(kept)
    else:
        (run / name).write_text("mine")
    before = files(run)
    with pytest.raises(InputError, match=f"it holds '{name}': unstale did not write this"):
        finish(run, overwrite=True)
    assert files(run) == before
    assert (kept / "a").read_text() == "mine"


def test_overwrite_refuses_a_folder_that_kept_no_list(tmp_path: Path) -> None:
    save_config(tmp_path, "train", TrainFlags())  # as in a source folder with such a file
    (tmp_path / "src.py").write_text("mine")
    with pytest.raises(InputError, match="kept no list of its files"):
        finish(tmp_path, overwrite=True)
    assert files(tmp_path) == {"config.yaml", "src.py"}


@pytest.mark.parametrize("flag", ["model", "old_model", "vectors", "data"])
def test_overwrite_refuses_to_delete_what_the_command_reads(flag: str, tmp_path: Path) -> None:
    run = finish(tmp_path / "run")
    flags = CorrectFlags(output=str(run), overwrite=True, **{flag: str(run / "model")})
    with pytest.raises(InputError, match=r"--overwrite would delete .*model, which this command"):
        check_output(flags)


def test_the_demo_keeps_what_it_did_not_write(tmp_path: Path) -> None:
    with run_folder("demo", TrainFlags(output=str(tmp_path / "demo"))) as run:
        run.begin()
    release()
    (tmp_path / "demo" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=r"it holds 'mine\.txt'"):
        demo.run(DemoFlags(output=str(tmp_path / "demo")))
    assert (tmp_path / "demo" / "mine.txt").exists()


def test_sweeping_takes_only_names_of_ours(tmp_path: Path) -> None:
    ours = [".a.json.77.unstale-tmp", "deep/.model.77.unstale-old/x"]
    theirs = [".notes.old", "sub/.draft.tmp", "a.unstale-tmp", ".lock"]
    for name in ours + theirs:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    sweep(tmp_path)
    assert files(tmp_path) == set(theirs)


def test_a_folder_whose_replacement_was_killed_gets_the_new_one(tmp_path, monkeypatch) -> None:
    run = finish(tmp_path / "run")
    kill, rename = KeyboardInterrupt, Path.rename

    def killed(self: Path, target: Path) -> Path:
        if target.name == "model":  # the old one is away, and the new one not in its place
            raise kill
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    monkeypatch.setattr("unstale.files.shutil.rmtree", lambda *_, **__: None)  # nor after a kill
    with pytest.raises(kill), atomic_folder(run / "model") as model:
        (model / "new").touch()
    monkeypatch.undo()
    assert not (run / "model").exists()
    sweep(run)
    assert files(run / "model") == {"new"}
    assert foreign(run) == []
    assert not [path for path in run.iterdir() if path.name.startswith(".model")]


def test_a_folder_that_is_replaced_keeps_what_others_put_there(tmp_path: Path) -> None:
    run = finish(tmp_path / "run")
    (run / "model" / "notes.md").write_text("mine")
    with atomic_folder(run / "model") as model:
        (model / "new").touch()
    assert files(run / "model") == {"new", "notes.md"}
    assert foreign(run) == ["model/notes.md"]
    remove_written(run / "model")
    assert files(run / "model") == {"notes.md"}


def test_a_hostile_list_removes_nothing_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "secret").write_text("mine")
    run = tmp_path / "run"
    keep_list(run)
    (run / "link").symlink_to(tmp_path / "deep")
    outside = ["../secret", str(tmp_path / "secret"), "link/secret", "a/../../secret"]
    lines = [f'"{name}"' for name in outside] + ["{", "[1]", '{"gone": 3}']
    (run / LIST).write_text("\n".join(lines))
    assert written(run) == {"link/secret"}
    remove_written(run)
    assert files(tmp_path) == {"secret", "deep/secret", f"run/{LIST}", "run/link"}


def test_a_file_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    """Neither one by one nor with its folder, even where unstale would write one of that name."""
    keep_list(tmp_path)
    (tmp_path / "model").mkdir()
    for name in ("results.json", "model/README.md"):
        (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=r"results\.json was not written by unstale"):
        write_json(tmp_path / "results.json", {})
    with (
        pytest.raises(InputError, match=r"README\.md was not written by unstale"),
        atomic_folder(tmp_path / "model") as model,
    ):
        (model / "README.md").write_text("ours")
    assert (tmp_path / "results.json").read_text() == "mine"
    assert (tmp_path / "model" / "README.md").read_text() == "mine"
    (tmp_path / "results.json").unlink()
    for value in (1, 2):  # and what is ours is
        write_json(tmp_path / "results.json", value)


def test_a_report_replaces_only_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = finish(tmp_path / "run")
    assert main(["report", str(run)]) == main(["report", str(run)]) == 0
    for folder in (finish(tmp_path / "other"), tmp_path / "no-list"):
        folder.mkdir(exist_ok=True)
        (folder / "results.json").write_bytes((run / "results.json").read_bytes())
        (folder / "report.html").write_text("mine")
        assert main(["report", str(folder)]) == 2
        assert "report.html was not written by unstale" in capsys.readouterr().err
        assert (folder / "report.html").read_text() == "mine"


def test_a_torn_line_of_the_list_spoils_no_other(tmp_path: Path) -> None:
    keep_list(tmp_path)
    write_json(tmp_path / "a.json", {})
    with (tmp_path / LIST).open("a") as file:
        file.write('\n"b.js')  # as a full disk leaves it
    write_json(tmp_path / "c.json", {})
    assert written(tmp_path) == {"a.json", "c.json"}


@pytest.mark.parametrize("kind", ["device", "link", "pipe", "folder"])
def test_only_regular_files_are_replaced(kind: str, tmp_path: Path) -> None:
    path, kept = tmp_path / "plan.json", tmp_path / "kept"
    kept.write_text("mine")
    if kind == "device":
        path = Path(os.devnull)
    elif kind == "link":
        path.symlink_to(kept)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(InputError, match="no regular file"), atomic_file(path):
        pass
    assert kept.read_text() == "mine"


def test_a_plan_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.json").write_text("mine")
    for path in (tmp_path / "mine.json", Path(os.devnull)):
        assert main(["plan", "--output", str(path)]) == 2
        assert "exists, and is not replaced" in capsys.readouterr().err
    assert (tmp_path / "mine.json").read_text() == "mine"


def test_the_second_of_two_commands_that_write_one_new_folder_fails(tmp_path: Path) -> None:
    chosen = EvaluateFlags(output=str(tmp_path / "data"))
    with run_folder("convert", chosen) as first, run_folder("convert", chosen) as second:
        with first.at_once() as folder:
            (folder / "first").touch()
        with pytest.raises(InputError, match="is not empty"), second.at_once() as folder:
            (folder / "second").touch()
    assert files(tmp_path / "data") == {"first", "config.yaml", LIST}
    # And in the moment between its last look and its renaming.
    with (
        pytest.raises(InputError, match="written by another command meanwhile"),
        atomic_folder(tmp_path / "data", replace=False),
    ):
        pass
    assert files(tmp_path) == {f"data/{name}" for name in files(tmp_path / "data")}


def test_data_is_overwritten_by_its_list_too(tmp_path: Path) -> None:
    for name in ("first", "second"):
        chosen = EvaluateFlags(output=str(tmp_path / "data"), overwrite=name == "second")
        with run_folder("convert", chosen) as run, run.at_once() as folder:
            (folder / name).touch()
    assert files(tmp_path / "data") == {"second", "config.yaml", LIST}
    (tmp_path / "data" / "mine").touch()
    with pytest.raises(InputError, match="it holds 'mine'"), run_folder("convert", chosen):
        pass


def test_an_output_within_another_keeps_a_list_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data that was written to the working folder, `--output .`, and a run that reads it there."""
    monkeypatch.chdir(tmp_path)
    with run_folder("convert", ConvertFlags(output=".")) as output, output.at_once() as folder:
        (folder / "corpus.jsonl").write_text("{}")
    for command, overwrite in (("evaluate", False), ("evaluate", True), ("convert", True)):
        flags = EvaluateFlags(output="runs/a", overwrite=overwrite)
        with run_folder(command, flags) as output:
            if command == "evaluate":
                output.begin()
                output.finish({}, [])
            else:
                with output.at_once() as folder:
                    (folder / "corpus.jsonl").write_text("{}")
    assert written(Path("runs/a")) == {"config.yaml", "corpus.jsonl"}
    assert written(tmp_path) >= {"config.yaml", "corpus.jsonl"}


def test_a_folder_that_was_moved_away_is_not_sealed(tmp_path: Path) -> None:
    with run_folder("train", TrainFlags(output=str(tmp_path / "run"))) as run:
        made = run.begin()
        write_json(made / "buffer" / "manifest.json", {})
        made.rename(tmp_path / "elsewhere")
        with pytest.raises(RunError, match=r"lacks .*config\.yaml.*it was moved"):
            run.finish({"name": "world"}, [RESULT])
    assert not (tmp_path / "run" / SEAL).exists()


def test_scratch_is_beside_and_goes(tmp_path: Path) -> None:
    with scratch_beside(tmp_path / "data") as scratch:
        (scratch / "x").touch()
        assert scratch.parent == tmp_path
    assert files(tmp_path) == set()
