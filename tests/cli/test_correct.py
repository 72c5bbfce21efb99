"""`unstale correct`, as a newcomer uses and misuses it."""

import hashlib
import json
import shutil
from pathlib import Path

import faiss
import numpy as np
import pytest
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from tests.kill import Killer, results

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


def correct(old: Path, beir: Path | str, output: Path, *more: str) -> int:
    words = ["correct", "--vectors", str(old), "--data", str(beir), "--output", str(output)]
    return main([*words, *more])


def test_a_rotated_index_comes_back_and_the_results_say_so(
    old: Path, beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = hashlib.sha256(old.read_bytes()).hexdigest()
    options = ("--count", "100", "--method", "linear", "--k", "5")
    assert correct(old, beir, tmp_path / "new", *options) == 0
    assert hashlib.sha256(old.read_bytes()).hexdigest() == before
    found = json.loads((tmp_path / "new" / "results.json").read_text())
    assert found["cost"]["targets_embedded"] == 100
    assert found["cost"]["held_out"] == 20
    assert {"embedding", "fitting", "correcting"} <= set(found["cost"]["seconds"])
    assert {"cosine", "overlap@5", "recall@10"} == set(found["validation"])
    # 80 pairs cannot fix a rotation of so many dimensions, but the targets lie in a smaller space.
    assert found["validation"]["cosine"]["value"] > 0.8
    assert [p["embedded"] for p in found["curve"]] == [40, 60, 100]  # 20 held out in each
    assert "Advice" in found["verdict"]["text"]
    said = capsys.readouterr().out
    assert found["verdict"]["text"] in said
    assert [line.split()[:2] for line in said.splitlines() if "±" in line] == [
        ["40", "33.3%"],
        ["60", "50.0%"],
        ["100", "83.3%"],
    ]
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


def test_a_buffer_is_corrected_and_does_not_pass_for_fresh(
    old: Path, beir: Path, bert_folder: Path, tmp_path: Path
) -> None:
    options = ("--count", "80", "--model", str(bert_folder))
    assert correct(old.parent / "buffer", beir, tmp_path / "new", *options) == 0
    manifest = json.loads((tmp_path / "new" / "vectors" / "manifest.json").read_text())
    assert "corrected" in manifest["fingerprint"]


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


def test_nothing_is_written_into_what_is_read(
    old: Path, beir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    buffer = old.parent / "buffer"
    named = f"beir:{beir}"
    for output, data, read in (
        (buffer / "new", beir, buffer),
        (beir / "new", beir, beir),
        (beir / "new", named, named),
    ):
        assert correct(buffer, data, output, "--count", "100") == 2
        assert f"--output {output} lies in {read}, which is only read" in capsys.readouterr().err
        assert not output.exists()


def test_bad_flags_are_refused(
    old: Path, beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more, message in (
        (("--count", "30"), "a sample of 30 of 120 targets is too small"),
        (("--fraction", "0"), "--fraction must be above 0"),
        (("--count", "100", "--re-embed", "-0.1"), "--re-embed must be at least 0, got -0.1"),
        (("--count", "100", "--re-embed", "1.5"), "or a whole number of them, got 1.5"),
        (("--count", "80", "--re-embed", "121"), "must be at most the 120 targets, got 121"),
        (("--count", "100", "--re-embed", "0.2"), "120 targets cannot make a sample of 100 and 24"),
        (("--count", "80", "--split", "exam"), "world has no split 'exam'"),
        (("--count", "0"), "--count must be at least 1, got 0"),
        (("--count", "80", "--fraction", "0.9"), "not by --fraction 0.9 and --count 80"),
        (("--count", "80", "--k", "0"), "--k must be at least 1, got 0"),
        (
            ("--count", "80", "--k", "120"),
            "--k must be from 1 to 119, fewer than the targets, got 120",
        ),
        (("--count", "80", "--queries", "-1"), "--queries must be at least 1, got -1"),
        (("--count", "80", "--corrector-hidden", "0"), "--corrector-hidden must be at least 1"),
        (("--count", "80", "--re-embed", "0.001"), "of 120 targets is not one of them"),
    ):
        assert correct(old, beir, tmp_path / "new", *more) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "new").exists()
    assert main(["correct", "--data", str(beir), "--output", str(tmp_path / "new")]) == 2
    assert "--vectors is required" in capsys.readouterr().err


def test_a_sample_of_everything_is_the_truth(old: Path, beir: Path, tmp_path: Path) -> None:
    assert correct(old, beir, tmp_path / "new", "--fraction", "1", "--method", "linear") == 0
    found = json.loads((tmp_path / "new" / "results.json").read_text())
    assert found["cost"]["targets_embedded"] == 120
    assert found["validation"]["overlap@10"]["value"] == 1


def test_what_matters_most_is_embedded_for_real(
    old: Path, beir: Path, bert_folder: Path, tmp_path: Path
) -> None:
    options = ("--count", "70", "--re-embed", "0.1", "--method", "linear")
    assert correct(old, beir, tmp_path / "new", *options, "--model", str(bert_folder)) == 0
    found = json.loads((tmp_path / "new" / "results.json").read_text())
    assert found["cost"]["targets_embedded"] == 70 + 12  # a tenth of 120 more
    assert found["cost"]["re_embedded"] == 12
    assert found["queries"] == {"split": "test", "validate": 20, "guide": 100}
    assert found["curve"][-1] == {"embedded": 82, "re_embedded": 12, **found["validation"]}
    picked = [
        load_file(tmp_path / "new" / "embedded" / stage / "picked.safetensors")["rows"]
        for stage in ("sample", "re-embedded")
    ]
    assert [len(rows) for rows in picked] == [70, 12]
    rows = np.unique(np.concatenate(picked))
    assert len(rows) == 82
    model = SentenceTransformer(str(bert_folder), device="cpu")
    fresh = model.encode_document(list(read_beir(beir).targets))
    vectors = np.load(tmp_path / "new" / "vectors.npy", allow_pickle=False)
    close = np.isclose(vectors, fresh, atol=1e-5).all(axis=1)
    assert close.nonzero()[0].tolist() == rows.tolist()  # those, and no others


@pytest.mark.slow
def test_a_killed_migration_goes_on_and_ends_the_same(
    kill: Killer, old: Path, beir: Path, bert_folder: Path, tmp_path: Path
) -> None:
    words = ["--count", "70", "--re-embed", "12", "--method", "linear"]
    words += ["--vectors", str(old), "--data", str(beir), "--model", str(bert_folder), "--output"]
    # At the second shard: the sample is embedded, the rest is chosen.
    kill(["correct", *words, str(tmp_path / "new")], "unstale.buffer.embed:write_shard", 2)
    assert main(["correct", "--resume", "--output", str(tmp_path / "new")]) == 0
    assert main(["correct", *words, str(tmp_path / "whole")]) == 0
    resumed, whole = (tmp_path / x / "vectors.npy" for x in ("new", "whole"))
    assert resumed.read_bytes() == whole.read_bytes()
    found, expected = (results(tmp_path / x) for x in ("new", "whole"))
    assert found["validation"] == expected["validation"]
    assert found["cost"] == expected["cost"]


def test_texts_without_qrels_or_queries_can_be_migrated(
    old: Path, beir: Path, tmp_path: Path, caplog, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(beir / "corpus.jsonl", bare)
    options = ("--count", "80", "--method", "linear")
    assert correct(old, bare, tmp_path / "a", *options) == 0
    assert "held-out targets ask in their place" in caplog.text
    assert correct(old, bare, tmp_path / "b", *options, "--re-embed", "9") == 2
    assert "--re-embed needs queries to choose" in capsys.readouterr().err
    shutil.copy(beir / "queries.jsonl", bare)
    assert correct(old, bare, tmp_path / "b", *options, "--re-embed", "9") == 0
    assert "bare has no qrels: recall cannot be measured" in caplog.text
    found = [json.loads((tmp_path / x / "results.json").read_text()) for x in "ab"]
    assert [set(r["validation"]) for r in found] == [{"cosine", "overlap@10"}] * 2
    assert [r["queries"]["validate"] for r in found] == [0, 60]  # half of 120, the rest guide


def write_faiss(path: Path, vectors: np.ndarray, kind: str, metric: int) -> None:
    index = faiss.index_factory(vectors.shape[1], kind, metric)
    index.train(vectors)
    index.add(vectors)
    faiss.write_index(index, str(path))


def test_a_faiss_index_must_rank_as_the_new_encoder_does(
    old: Path, beir: Path, bert_folder: Path, tmp_path: Path, caplog, capsys
) -> None:
    write_faiss(tmp_path / "old.faiss", np.load(old), "IVF4,Flat", faiss.METRIC_L2)
    dot = tmp_path / "dot"
    shutil.copytree(bert_folder, dot)
    config = json.loads((dot / "config_sentence_transformers.json").read_text())
    config["similarity_fn_name"] = "dot"
    (dot / "config_sentence_transformers.json").write_text(json.dumps(config))
    words = ("--count", "80", "--method", "linear", "--model")
    assert correct(tmp_path / "old.faiss", beir, tmp_path / "new", *words, str(dot)) == 2
    assert "ranks by L2 distance, not by inner product" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    # Of unit vectors the order is the same.
    assert correct(tmp_path / "old.faiss", beir, tmp_path / "new", *words, str(bert_folder)) == 0
    assert "is an IndexIVFFlat; the new index will be flat" in caplog.text
    assert "keeps its vectors rounded" not in caplog.text
    assert faiss.read_index(str(tmp_path / "new" / "vectors.faiss")).metric_type == faiss.METRIC_L2


def test_an_index_of_rounded_vectors_is_pointed_out(
    old: Path, beir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_faiss(tmp_path / "old.faiss", np.load(old), "SQ8", faiss.METRIC_INNER_PRODUCT)
    words = ("--count", "80", "--method", "linear")
    assert correct(tmp_path / "old.faiss", beir, tmp_path / "new", *words) == 0
    assert "an IndexScalarQuantizer keeps its vectors rounded" in caplog.text


def test_the_old_vectors_are_not_overwritten(
    old: Path, beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--count", "80", "--method", "linear")
    assert correct(old, beir, tmp_path / "new", *options) == 0
    vectors = tmp_path / "new" / "vectors.npy"
    assert correct(vectors, beir, tmp_path / "new", *options, "--overwrite") == 2
    assert "--overwrite would delete" in capsys.readouterr().err
    assert vectors.is_file()


@pytest.mark.parametrize("way", ["rewrite", "verdict"])
def test_vectors_that_change_while_they_are_read_are_noticed(
    way: str,
    old: Path,
    beir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from unstale.migration import job

    shard = load_file(old.parent / "buffer" / "shard-00000.safetensors")
    copy = tmp_path / "old.npy"
    np.save(copy, shard["vectors"])

    def edit(*_: object) -> None:
        vectors = np.load(copy)
        vectors[3] *= 2
        np.save(copy, vectors)

    monkeypatch.setattr(job, "check_order", edit)  # it comes when the sample has been fitted
    options = ["--count", "100", "--method", "linear", "--k", "5", "--way", way]
    options += ["--old-model", "tiny"] if way == "verdict" else []
    assert correct(copy, beir, tmp_path / "new", *options) == 3
    assert "old.npy was changed while it was read: start anew" in capsys.readouterr().err
    assert not (tmp_path / "new" / "results.json").exists()
    assert main(["correct", "--resume", "--output", str(tmp_path / "new")]) == 2
    assert "vectors changed since" in capsys.readouterr().err
