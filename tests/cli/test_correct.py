"""`unstale correct` and `unstale experiment`, as a newcomer uses and misuses them."""

import hashlib
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from unstale.cli.experiment import EXPERIMENTS
from unstale.cli.main import main
from unstale.data.formats.beir import read_beir


@pytest.fixture(scope="module")
def old(beir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The old index: `tiny` vectors, mixed by a fixed rotation, of 120 targets."""
    path = tmp_path_factory.mktemp("old") / "old.npy"
    assert main(["embed", "--data", str(beir), "--output", str(path.parent / "buffer")]) == 0
    from unstale.buffer.buffer import TargetBuffer

    buffer = TargetBuffer.open(path.parent / "buffer")
    vectors = np.concatenate([v.numpy() for _, v in buffer.chunks(1000)])
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(vectors.shape[1],) * 2))[0]
    np.save(path, (vectors @ rotation).astype(np.float32))
    return path


def correct(old: Path, beir: Path, output: Path, *more: str) -> int:
    words = ["correct", "--vectors", str(old), "--data", str(beir), "--output", str(output)]
    return main([*words, *more])


def test_a_rotated_index_comes_back_and_the_results_say_so(
    old: Path, beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = hashlib.sha256(old.read_bytes()).hexdigest()
    options = ("--count", "100", "--method", "procrustes", "--k", "5")
    assert correct(old, beir, tmp_path / "new", *options) == 0
    assert hashlib.sha256(old.read_bytes()).hexdigest() == before
    results = json.loads((tmp_path / "new" / "results.json").read_text())
    assert results["cost"]["targets_embedded"] == 100
    assert results["cost"]["held_out"] == 20
    assert {"embedding", "fitting", "correcting"} <= set(results["cost"]["seconds"])
    assert {"cosine", "overlap@5", "recall@10"} == set(results["validation"])
    # 80 pairs cannot fix a rotation of so many dimensions, but the targets lie in a smaller space.
    assert results["validation"]["cosine"]["value"] > 0.8
    assert [p["embedded"] for p in results["curve"]] == [40, 60, 100]  # 20 held out in each
    assert "Advice" in results["verdict"]["text"]
    assert results["verdict"]["text"] in capsys.readouterr().out
    vectors = np.load(tmp_path / "new" / "vectors.npy", allow_pickle=False)
    assert vectors.shape == np.load(old).shape
    model = SentenceTransformer(modules=list(_tiny()), device="cpu")
    fresh = model.encode_document(list(read_beir(beir).targets))
    cosine = (vectors * fresh).sum(1)
    assert np.sort(cosine)[20:].min() > 0.999  # the fresh vectors of the sample were kept
    assert cosine.min() < 0.9999  # and the rest are corrected


def _tiny():
    from unstale.encoders.load import load_encoder

    return load_encoder("tiny", device="cpu").children()


def test_the_buffer_of_a_run_and_its_corrector(beir: Path, tmp_path: Path) -> None:
    small = "--steps 6 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-targets 40"
    run = tmp_path / "run"
    assert main(["train", "--data", str(beir), "--output", str(run), *small.split()]) == 0
    words = ["correct", "--run", str(run), "--count", "80", "--output", str(tmp_path / "new")]
    assert main(words) == 0
    results = json.loads((tmp_path / "new" / "results.json").read_text())
    assert results["corrector"]["method"] == "run"
    assert results["cost"]["held_out"] == 80
    assert results["cost"]["fresh_kept"] == 0
    manifest = json.loads((tmp_path / "new" / "vectors" / "manifest.json").read_text())
    assert "corrected" in manifest["fingerprint"]  # it must not pass for a fresh buffer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v[:119], "119 vectors, world 120 targets"),
        (lambda v: np.where(np.arange(120)[:, None] == 7, np.nan, v), "row 7: NaN"),
        (lambda v: np.where(np.arange(120)[:, None] == 9, 0, v), "row 9: a zero vector"),
        (lambda v: v.astype(np.int32), "found int32"),
    ],
)
def test_bad_vectors_are_refused_before_any_work(
    old: Path, beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change, message: str
) -> None:
    np.save(tmp_path / "bad.npy", change(np.load(old)))
    assert correct(tmp_path / "bad.npy", beir, tmp_path / "new", "--count", "100") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_bad_flags_are_refused(
    old: Path, beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more, message in (
        (("--count", "30"), "a sample of 30 of 120 targets is too small"),
        (("--fraction", "0"), "--fraction must be above 0"),
        (("--run", str(tmp_path)), "not a finished run with a corrector"),
    ):
        assert correct(old, beir, tmp_path / "new", *more) == 2
        assert message in capsys.readouterr().err
    assert main(["correct", "--data", str(beir), "--output", str(tmp_path / "new")]) == 2
    assert "--vectors is required" in capsys.readouterr().err


def test_a_time_that_is_ample_embeds_everything(old: Path, beir: Path, tmp_path: Path) -> None:
    options = ("--seconds", "1000", "--method", "linear", "--sampling", "coverage")
    assert correct(old, beir, tmp_path / "new", *options) == 0
    results = json.loads((tmp_path / "new" / "results.json").read_text())
    assert results["cost"]["targets_embedded"] == 120
    assert results["validation"]["overlap@10"]["value"] == 1  # all fresh: the truth itself


def test_every_experiment_that_is_named_exists() -> None:
    for target in EXPERIMENTS.values():
        module, function = target.split(":")
        assert callable(getattr(import_module(module), function))


def test_an_unknown_experiment_or_setting_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "circle", "--output", str(tmp_path / "a")]) == 2
    assert "there are generalization, hard-negatives" in capsys.readouterr().err
    words = ["experiment", "toy-circle", "--set.colour", "red", "--output", str(tmp_path / "a")]
    assert main(words) == 2
    assert "toy-circle has no setting colour; it takes epochs, seed" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_an_experiment_runs_from_the_command_line(tmp_path: Path) -> None:
    output = tmp_path / "circle"
    words = ["experiment", "toy-circle", "--set.epochs", "60", "--output", str(output)]
    assert main(words) == 0
    results = json.loads((output / "results.json").read_text())
    assert results["settings"]["epochs"] == 60
    assert results["kl_corrected"] < results["kl_stale"]
    assert (output / "figure.png").read_bytes().startswith(b"\x89PNG")
