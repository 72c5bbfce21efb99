"""A run folder from its checks to its seal: nothing is touched too early, nothing is left over."""

from pathlib import Path

import pytest

from unstale.cli.config import read_config, save_config
from unstale.cli.main import main
from unstale.cli.options import CompareFlags, EvaluateFlags, TrainFlags
from unstale.cli.options_inspect import CorrectFlags
from unstale.cli.output import run_folder
from unstale.errors import InputError
from unstale.integrity import SEAL, check_seal
from unstale.locks import release
from unstale.results import RunResult, read_results
from unstale.written import LIST, LOCK, begin_list

RESULT = RunResult(strategy="stale", metrics={"recall@10": 0.5}, steps=7)


@pytest.fixture(autouse=True)
def locks():
    yield
    release()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def finish(output: Path, **flags: object) -> TrainFlags:
    chosen = TrainFlags(output=str(output), steps=7, **flags)
    with run_folder("train", chosen) as run:
        run.begin()
        run.finish({"name": "world"}, [RESULT])
    release()
    return chosen


def stop_after(chosen: TrainFlags, *made: str) -> None:
    """Begin a run, make some folders in it, and meet bad input."""
    with run_folder("train", chosen) as run:
        output = run.begin()
        for name in made:
            (output / name).mkdir()
        raise InputError("bad")


def write_half(chosen: EvaluateFlags) -> None:
    with run_folder("evaluate", chosen) as run, run.at_once() as folder:
        (folder / "half").touch()
        raise OSError("disk is full")


def test_checks_touch_nothing_until_the_run_begins(tmp_path: Path) -> None:
    output = tmp_path / "run"
    with run_folder("train", TrainFlags(output=str(output))) as run:
        assert not run.finished
        assert not output.exists()
        assert run.begin() == output
        assert names(output) == {"config.yaml", LOCK, LIST}
        assert read_config(output)["steps"] == TrainFlags().steps
    with pytest.raises(InputError, match="not empty"):
        stop_after(TrainFlags(output=str(output)))


def test_a_finished_run_has_results_and_a_seal_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = finish(tmp_path / "run")
    assert check_seal(tmp_path / "run") == 2  # the flags and the results
    assert read_results(tmp_path / "run")["runs"] == [RESULT.to_json()]
    with run_folder("train", TrainFlags(output=chosen.output, steps=7, resume=True)) as run:
        assert run.finished
    assert "nothing is left to do" in capsys.readouterr().out
    assert (tmp_path / "run" / SEAL).is_file()


def test_bad_input_before_anything_was_made_gives_the_folder_back(tmp_path: Path) -> None:
    chosen = TrainFlags(output=str(tmp_path / "run"))
    with pytest.raises(InputError, match="bad"):
        stop_after(chosen)
    assert names(tmp_path / "run") <= {LOCK, LIST}
    with run_folder("train", chosen) as run:  # the mended command may have it
        run.begin()


def test_bad_input_keeps_what_was_made(tmp_path: Path) -> None:
    chosen = TrainFlags(output=str(tmp_path / "run"))
    with pytest.raises(InputError, match="bad"):
        stop_after(chosen, "buffer")
    assert {"buffer", "config.yaml"} <= names(tmp_path / "run")


def test_a_refused_resume_keeps_the_flags_that_the_run_began_with(tmp_path: Path) -> None:
    with run_folder("train", TrainFlags(output=str(tmp_path / "run"), steps=7)) as run:
        run.begin()
    changed = TrainFlags(output=str(tmp_path / "run"), steps=8, resume=True)
    with pytest.raises(InputError, match="--steps 8: it began with 7"):
        stop_after(changed)
    assert read_config(tmp_path / "run")["steps"] == 7


def test_a_command_killed_in_its_first_moment_can_be_repeated(tmp_path: Path) -> None:
    run = tmp_path / "run"
    begin_list(run)
    (run / ".config.yaml.77.unstale-tmp").touch()  # as SIGKILL leaves it
    with run_folder("train", TrainFlags(output=str(run))) as folder:
        folder.begin()
    assert names(run) == {"config.yaml", LIST, LOCK}


def test_a_refused_resume_leaves_a_finished_folder_finished(tmp_path: Path) -> None:
    """As when a comparison is given more seeds, and its data turns out to have changed."""
    run = tmp_path / "run"
    with run_folder("compare", CompareFlags(output=str(run), seeds="0")) as folder:
        folder.begin()
        folder.finish({"name": "world"}, [])
    more = CompareFlags(output=str(run), seeds="0,1", resume=True)
    with pytest.raises(InputError, match="bad"):
        stop_after(more)
    assert read_config(run)["seeds"] == "0"
    assert check_seal(run) == 2


def test_what_a_command_reads_is_not_replaced(tmp_path: Path) -> None:
    chosen = finish(tmp_path / "run")
    model = tmp_path / "run" / "model"
    model.mkdir()
    again = TrainFlags(output=chosen.output, overwrite=True, model=str(model))
    with pytest.raises(InputError, match="--overwrite would delete"):
        stop_after(again)
    assert model.is_dir()


def test_data_is_written_at_once_or_not_at_all(tmp_path: Path) -> None:
    output = tmp_path / "data"
    with pytest.raises(OSError, match="disk is full"):
        write_half(EvaluateFlags(output=str(output)))
    assert not output.exists()
    with run_folder("evaluate", EvaluateFlags(output=str(output))) as run, run.at_once() as folder:
        (folder / "whole").touch()
        assert not output.exists()
    assert names(output) == {"whole", "config.yaml", LIST}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("faq.csv", "{}/faq.csv"),
        ("./faq.csv", "{}/faq.csv"),
        ("csv:./faq.csv:query=a", "csv:{}/faq.csv:query=a"),
        ("beir:b", "beir:{}/b"),
        ("b/../faq.csv", "{}/faq.csv"),
        ("lancedb:b#docs?id=x", "lancedb:{}/b#docs?id=x"),
        ("qdrant:http://b#docs", "qdrant:http://b#docs"),
        ("docstrings", "docstrings"),
    ],
)
def test_a_config_says_where_the_data_is_from_any_folder(
    name: str, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faq.csv").touch()
    (tmp_path / "b").mkdir()
    save_config(tmp_path, "correct", CorrectFlags(vectors=name))
    assert read_config(tmp_path)["vectors"] == kept.format(tmp_path)


def test_an_output_that_is_a_loop_of_links(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "c").symlink_to(tmp_path / "nothing")
    for name in ("a", "a/below", "c"):
        assert main(["train", "--output", str(tmp_path / name)]) == 2
        assert "is a link to nothing" in capsys.readouterr().err


def test_a_command_advises_only_flags_that_it_has(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(InputError, match="use --overwrite, or"):
        run_folder("evaluate", EvaluateFlags(output=str(tmp_path))).__enter__()
    with pytest.raises(InputError, match="use --overwrite or --resume, or"):
        run_folder("train", TrainFlags(output=str(tmp_path))).__enter__()


def test_a_run_of_another_version_is_refused_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_config(tmp_path, "train", TrainFlags(output=str(tmp_path)))
    with (tmp_path / "config.yaml").open("a") as file:
        file.write("free_negatives: 4\n")  # a flag that is gone
    assert main(["train", "--resume", "--output", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"cannot resume {tmp_path}: another version of unstale wrote it" in said
    assert "free_negatives" in said
    assert main(["train", "--resume", "--output", str(tmp_path), "--no-such", "1"]) == 2
    assert "another version" not in capsys.readouterr().err
