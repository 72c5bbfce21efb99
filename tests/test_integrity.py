"""Every kind of damage is named; nothing is written outside, or by two at once, or half."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from unstale.buffer.buffer import TargetBuffer, check_shards, write_manifest
from unstale.cli.main import main
from unstale.errors import InputError, RunError
from unstale.files import atomic_file, atomic_folder, write_json
from unstale.integrity import SEAL, check_seal, digest, seal
from unstale.locks import hold, release
from unstale.written import keep_list

SMALL = "--steps 2 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-targets 40"


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    folder = tmp_path / "sealed"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.bin").write_bytes(bytes(range(200)))
    (folder / "deep" / "b.txt").write_text("two")
    seal(folder)
    return folder


def test_a_sealed_folder_is_as_it_was(sealed: Path) -> None:
    assert check_seal(sealed) == 2
    (sealed / "added later.txt").write_text("fine")
    assert check_seal(sealed) == 2


def damage(folder: Path, how: str) -> None:
    path = folder / "a.bin"
    if how == "flipped":
        path.write_bytes(bytes([1, *range(1, 200)]))
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif how == "missing":
        path.unlink()
    elif how == "list flipped":
        text = (folder / SEAL).read_text().replace('"bytes": 3', '"bytes": 4')
        (folder / SEAL).write_text(text)
    elif how == "list cut":
        (folder / SEAL).write_text((folder / SEAL).read_text()[:-9])
    elif how == "foreign":
        (folder / SEAL).write_text('{"lr": 1}')
    elif how == "outside":
        files = {"../secret": {"bytes": 1, "sha256": ""}}
        text = json.dumps({"format": 1, "sha256": digest(files), "files": files})
        (folder / SEAL).write_text(text)


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        ("flipped", r"a\.bin is damaged"),
        ("cut", r"a\.bin has 199 bytes, files\.json says 200"),
        ("missing", r"lacks its file a\.bin"),
        ("list flipped", r"files\.json is damaged"),
        ("list cut", r"files\.json is not JSON"),
        ("foreign", r"files\.json is not a list of files"),
        ("outside", r"a file outside the folder: '\.\./secret'"),
    ],
)
def test_damage_is_named(sealed: Path, how: str, rule: str) -> None:
    damage(sealed, how)
    with pytest.raises(InputError, match=rule):
        check_seal(sealed)
    if how != "flipped":  # which only a full reading can see
        with pytest.raises(InputError, match=rule):
            check_seal(sealed, full=False)


@pytest.fixture(scope="module")
def run(small: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "run"
    where = [*small, "--output", str(output), "--save-steps", "1"]
    assert main(["train", *where, *SMALL.split(), "--strategy", "corrected"]) == 0
    return output


@pytest.mark.parametrize(
    "victim",
    [
        "buffer/shard-00000.safetensors",
        "checkpoints/checkpoint-2/optimizer.pt",
        "checkpoints/checkpoint-1/miner.safetensors",
        "corrector.safetensors",
        "results.json",
        "config.yaml",
        "model/modules.json",
    ],
)
def test_verify_finds_one_flipped_bit_anywhere(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], victim: str
) -> None:
    assert main(["verify", str(run)]) == 0
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    data = bytearray((copy / victim).read_bytes())
    data[len(data) // 2] ^= 4
    (copy / victim).write_bytes(data)
    assert main(["verify", str(copy)]) == 2
    shown = capsys.readouterr()
    assert f"{copy / victim} is damaged" in shown.out
    assert "1 of 4 folders" in shown.err
    assert main(["verify", str(tmp_path / "nothing")]) == 2


def test_a_shard_of_a_hostile_manifest_is_neither_read_nor_written(run: Path, tmp_path: Path):
    folder = tmp_path / "buffer"
    shutil.copytree(run / "buffer", folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["sha256"]
    for name in ("../outside.safetensors", "/etc/passwd"):
        manifest["shards"] = [{"file": name, "rows": 120}]  # unfinished: it would be written
        write_manifest(folder, manifest)
        with pytest.raises(InputError, match="a file outside the folder"):
            TargetBuffer.open(folder)
    assert not (tmp_path / "outside.safetensors").exists()


def test_a_flipped_bit_in_a_shard_is_found_in_full_only(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "buffer"
    shutil.copytree(run / "buffer", folder)
    shard = folder / "shard-00000.safetensors"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    TargetBuffer.open(folder)
    with pytest.raises(InputError, match=r"shard-00000\.safetensors is damaged"):
        check_shards(folder)


_HOLD = """
import sys, time
from pathlib import Path
from unstale.locks import hold
hold(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_a_folder_in_use_by_another_process_is_refused_until_it_dies(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        arguments = ["train", "--data", str(beir), "--output", str(folder), *SMALL.split()]
        assert main(arguments) == 2
        assert f"is in use by process {other.pid} on" in capsys.readouterr().err
        assert not (folder / "config.yaml").exists()
        other.kill()
    hold(folder)  # whoever died has let go
    release()


def test_a_read_only_folder_is_one_clear_line(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")  # even root cannot make a folder in a file
    where = ["--data", str(beir), "--output", str(blocked / "run")]
    assert main(["train", *where, *SMALL.split()]) == 2
    assert "file is a file" in capsys.readouterr().err


_LOST = """
import sys
import unstale.training.prepare as prepare
from unstale.cli.main import main
embed = prepare.embed_corpus
def losing(model, tokens, folder, *args, **kwargs):
    buffer = embed(model, tokens, folder, *args, **kwargs)
    for shard in folder.glob("shard-*"):
        with shard.open("r+b") as file:
            file.truncate(0)
    return buffer
prepare.embed_corpus = losing
sys.exit(main())
"""


@pytest.mark.slow
def test_a_lost_memory_map_ends_the_run_which_names_the_file_next_time(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    arguments = ["train", "--data", str(beir), "--output", str(run), *SMALL.split()]
    lost = subprocess.run(
        [sys.executable, "-c", _LOST, *arguments], capture_output=True, text=True, check=False
    )
    assert lost.returncode == -signal.SIGBUS, lost.stderr
    assert "Bus error" in lost.stderr
    assert main(["train", "--resume", "--output", str(run)]) == 2
    assert "shard-00000.safetensors" in capsys.readouterr().err
    shutil.rmtree(run / "buffer")
    assert main(["train", "--resume", "--output", str(run)]) == 0


_FULL = """
import resource, signal, sys
from unstale.cli.main import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as a full disk: an error, not a signal
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
def test_a_full_disk_stops_an_embedding_which_then_goes_on(beir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "buffer"
    arguments = ["embed", "--data", str(beir), "--output", str(folder), "--device", "cpu"]
    full = subprocess.run(
        [sys.executable, "-c", _FULL, "100000", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert full.returncode == 3, full.stderr  # no fault of the input: it can be resumed
    assert "unstale embed: stopped:" in full.stderr
    assert "Traceback" not in full.stderr
    assert not list(folder.glob("shard-*"))
    assert not list(folder.glob(".shard-*"))
    assert main(["embed", "--resume", "--output", str(folder)]) == 0
    assert check_shards(folder) == 1


def test_what_safetensors_writes_is_as_readable_as_any_other_file(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "folder") as folder:
        save_file({"a": torch.zeros(1)}, folder / "weights")
        (folder / "text").write_text("")
    with atomic_file(tmp_path / "alone") as path:
        save_file({"a": torch.zeros(1)}, path)
    usual = (tmp_path / "folder" / "text").stat().st_mode
    assert (tmp_path / "folder" / "weights").stat().st_mode == usual
    assert (tmp_path / "alone").stat().st_mode == usual


def test_a_seal_needs_all_that_was_written_but_old_checkpoints(tmp_path: Path) -> None:
    keep_list(tmp_path)
    for name in ("a.json", "checkpoints/checkpoint-1/b.json"):
        write_json(tmp_path / name, {})
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "checkpoints" / "checkpoint-1" / "b.json").unlink()
    seal(tmp_path)
    assert check_seal(tmp_path) == 1  # what is not ours is not ours to vouch for
    (tmp_path / "a.json").unlink()
    with pytest.raises(RunError, match=r"lacks 'a\.json'"):
        seal(tmp_path)
