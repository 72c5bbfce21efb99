"""Ray's workers, one of which dies, make the bytes of one process, and so does torchrun."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.migration.test_shards import files, run
from tests.test_processes import torchrun

from unstale import engine
from unstale.cli.main import main
from unstale.data.formats.beir import read_beir
from unstale.encoders.load import load_encoder
from unstale.migration.index import Known, index_chunks
from unstale.migration.stale import StaleVectors
from unstale.migration.vectors import ArrayVectors

EMBED = ["embed", "--model", "tiny", "--shard-rows", "16"]
CORRECT = ["correct", "--model", "tiny", "--count", "80", "--corrector-hidden", "16"]


@pytest.fixture(scope="module")
def cluster():
    """A small cluster of this test's own, which `--engine ray` joins."""
    ray = pytest.importorskip("ray", reason="needs unstale[ray]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns of a change to come
        patch.setenv("RAY_worker_niceness", "0")  # or a busy machine starves them
        ray.init(
            num_cpus=1,
            object_store_memory=600 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
        )
        yield ray
        ray.shutdown()


@pytest.fixture
def deaths(cluster, tmp_path, monkeypatch):
    """Let the worker that does the third piece of each map die by SIGKILL, once."""
    marks = tmp_path / "deaths"
    marks.mkdir()
    plain = engine.ray_map

    def deadly(work, shared, items, **how):
        def dying(*told):
            *given, (number, item) = told
            mark = marks / f"{work.__name__}-{os.getppid()}"
            if number == 2 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*given, item)

        return plain(dying, shared, enumerate(items), **how)

    for user in ("unstale.buffer.embed", "unstale.migration.index"):
        monkeypatch.setattr(f"{user}.ray_map", deadly)
    return marks


# What makes small pieces of small data, here and in the processes of torchrun.
SMALL = """
import sys
from unstale.cli.main import main
from unstale.migration import embed, stale

def small(self, first):
    return ((s, v) for s, v in self.chunks(16) if s + len(v) > first)

embed.SHARD_ROWS, stale.StaleVectors.chunks_from = 16, small
if len(sys.argv) > 1:
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def correct(beir: Path, tmp_path: Path, monkeypatch) -> list[str]:
    """The words of a migration in several stages, shards and pieces."""
    monkeypatch.setattr("unstale.migration.embed.SHARD_ROWS", 16)
    monkeypatch.setattr(StaleVectors, "chunks_from", StaleVectors.chunks_from)
    monkeypatch.setattr("sys.argv", [""])
    exec(SMALL, {})
    targets = read_beir(beir).targets
    np.save(tmp_path / "old.npy", load_encoder("tiny").encode_document(list(targets)))
    vectors = ["--vectors", str(tmp_path / "old.npy"), "--data", str(beir)]
    return [*CORRECT, *vectors, "--re-embed", "20", "--output"]


@pytest.mark.slow
def test_a_buffer_of_ray_with_a_worker_killed_is_that_of_one_process(
    beir: Path, tmp_path: Path, deaths: Path
) -> None:
    run(*EMBED, "--data", str(beir), "--output", str(tmp_path / "one"))
    run(*EMBED, "--data", str(beir), "--engine", "ray", "--output", str(tmp_path / "ray"))
    assert len(list(deaths.iterdir())) == 1
    assert files(tmp_path / "ray") == files(tmp_path / "one")
    manifests = [(tmp_path / n / "manifest.json").read_text() for n in ("one", "ray")]
    assert manifests[0] == manifests[1]


@pytest.mark.slow
def test_a_migration_by_ray_with_workers_killed_is_that_of_one_process(
    correct: list[str], tmp_path: Path, deaths: Path
) -> None:
    run(*correct, str(tmp_path / "one"))
    run(*correct, str(tmp_path / "ray"), "--engine", "ray")
    assert {p.name.partition("-")[0] for p in deaths.iterdir()} == {"_embed_piece", "_correct"}
    one, ray = files(tmp_path / "one"), files(tmp_path / "ray")
    assert "vectors.npy" in one
    assert ray == one
    rows = [(tmp_path / n / "rows.parquet").read_bytes() for n in ("one", "ray")]
    assert rows[0] == rows[1]


@pytest.mark.slow
def test_a_migration_by_two_processes_is_that_of_one(correct: list[str], tmp_path: Path) -> None:
    run(*correct, str(tmp_path / "one"))
    script = tmp_path / "small.py"
    script.write_text(SMALL)
    torchrun(2, str(script), *correct, str(tmp_path / "two"), "--device", "cpu")
    assert files(tmp_path / "two") == files(tmp_path / "one")


@pytest.mark.slow
def test_an_error_of_a_worker_is_the_users(cluster, beir: Path, tmp_path: Path, capsys) -> None:
    words = [*EMBED, "--data", str(beir), "--engine", "ray", "--output", str(tmp_path / "new")]
    assert main([*words, "--tokens-per-batch", "0"]) == 2
    with pytest.raises(ZeroDivisionError):
        list(engine.ray_map(divmod, (1,), [0], gpu=False))


def test_only_a_map_that_can_use_a_gpu_reserves_one(monkeypatch) -> None:
    """Correcting runs on the CPU: a reserved GPU would be idle, and one CPU busy."""
    asked = []

    class FakeRay:
        put = get = staticmethod(lambda value: value)

        @staticmethod
        def cluster_resources() -> dict[str, float]:
            return {"CPU": 4, "GPU": 2}

        @staticmethod
        def remote(**needs):
            asked.append(needs["num_gpus"])
            return lambda _: SimpleNamespace(remote=lambda work, held, item: work(*held[0], item))

    monkeypatch.setattr(engine, "_cluster", lambda: FakeRay)
    assert list(engine.ray_map(divmod, (7,), [2], gpu=True)) == [(3, 1)]
    source = ArrayVectors(Path("old.npy"), np.ones((3, 2), np.float32))
    none = Known(torch.arange(0), torch.zeros(0, 2))
    corrected = index_chunks(source, torch.nn.Identity(), none, engine="ray")
    assert sum(len(vectors) for _, vectors in corrected) == 3
    assert asked == [1, 0]


def test_ray_is_refused_where_it_is_absent_or_has_a_rival(
    beir: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    words = [*EMBED, "--data", str(beir), "--engine", "ray", "--output", str(tmp_path / "new")]
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    assert main(words) == 2
    assert "pip install 'unstale[ray]'" in capsys.readouterr().err
    monkeypatch.setattr(engine, "find_spec", lambda name: True)
    assert main([*words, "--shard", "0/2"]) == 2
    assert "--engine ray and --shard 0/2 both divide the work" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(words) == 2
    assert "--engine ray and torchrun both" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
