"""`unstale mine`: the hardest negatives of a view, in any format."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from tests.data.files import write

from unstale.buffer.buffer import TargetBuffer
from unstale.cli.finished import run_corrector
from unstale.cli.main import main
from unstale.data.dataset import RetrievalDataset
from unstale.data.formats import FORMATS
from unstale.data.formats.walk import examples
from unstale.data.load import load_dataset

SMALL = "--steps 4 --batch-size 8 --hard-negatives 2 --corrector-hidden 24 --probe-targets 40"


def mine(output: Path, *flags: object) -> int:
    return main(["mine", *map(str, flags), "--output", str(output)])


def brute(dataset: RetrievalDataset, scores: torch.Tensor, k: int) -> dict[str, list[str]]:
    """List the k best of each training query but its one positive; no text is there twice."""
    expected = {}
    for query, target in dataset.split("train").pairs.tolist():
        order = [row for row in scores[query].argsort(descending=True).tolist() if row != target]
        expected[dataset.queries[query]] = dataset.targets.take(order[:k])
    return expected


def mined(dataset: RetrievalDataset) -> dict[str, list[str]]:
    return {e.query: [t.joined for t in e.negatives] for e in examples(dataset, "train")}


QUICK = {"beir", "jsonl"}  # judgements by id, and rows of columns; each format has its own tests
WRITTEN = [name for name in FORMATS if name != "ir_datasets"]


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in WRITTEN]
)
def test_every_format_gets_the_models_hardest_negatives(
    name: str, beir: Path, bert_folder: Path, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    flags = ["--data", beir, "--model", bert_folder, "--hard-negatives", 3, "--format", name]
    assert mine(tmp_path / "out", *flags) == 0
    model = SentenceTransformer(str(bert_folder), device="cpu")
    queries = model.encode_query(list(dataset.queries), convert_to_tensor=True)
    targets = model.encode_document(list(dataset.targets), convert_to_tensor=True)
    found = load_dataset(str(tmp_path / "out"))
    assert mined(found) == brute(dataset, queries @ targets.T, 3)
    assert len(found.split("test").pairs) == 20  # the other splits are there, too
    assert not len(found.split("test").negatives)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]  # no buffer stays behind


def test_the_corpus_is_embedded_by_ray_if_asked(
    beir: Path, bert_folder: Path, dataset: RetrievalDataset, tmp_path: Path, monkeypatch
) -> None:
    """What goes to Ray's workers is done here; `tests/migration/test_ray.py` has real ones."""
    handed = []

    def here(work, shared, pieces):
        for piece in pieces:
            handed.append(len(piece))
            yield work(*shared, piece)

    monkeypatch.setattr("unstale.engine.find_spec", lambda name: True)
    monkeypatch.setattr("unstale.buffer.embed.ray_map", here)
    flags = ["--data", beir, "--model", bert_folder, "--hard-negatives", 3]
    assert mine(tmp_path / "ray", *flags, "--engine", "ray") == 0
    assert handed == [len(dataset.targets)]
    assert mine(tmp_path / "local", *flags) == 0
    ray, local = (mined(load_dataset(str(tmp_path / name))) for name in ("ray", "local"))
    assert ray == local


@pytest.fixture(scope="module")
def run(small: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "run"
    flags = [*small, "--learning-rate", "0.05", "--corrector-lr", "0.05"]
    flags += ["--strategy", "corrected", "--no-guard"]
    assert main(["train", *flags, *SMALL.split(), "--output", str(output)]) == 0
    return output


def test_a_run_that_keeps_no_corpus_says_what_to_do(
    small: list[str], beir: Path, tmp_path: Path, capsys
) -> None:
    run = tmp_path / "run"
    assert main(["train", *small, *SMALL.split(), "--output", str(run)]) == 0
    capsys.readouterr()
    assert mine(tmp_path / "out", "--run", run) == 2
    assert f"--model {run / 'model'} embeds the targets" in capsys.readouterr().err
    assert mine(tmp_path / "out", "--data", beir, "--model", run / "model") == 0


def test_a_run_mines_in_its_corrected_view(
    run: Path, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    assert mine(tmp_path / "out", "--run", run, "--hard-negatives", 3) == 0
    buffer = TargetBuffer.open(run / "buffer")[torch.arange(120)]
    with torch.no_grad():
        corrected = run_corrector(str(run), buffer.shape[1])(buffer)
    torch.testing.assert_close(corrected.norm(dim=1), torch.ones(120))  # as the encoder's
    model = SentenceTransformer(str(run / "model"), device="cpu")
    queries = model.encode_query(list(dataset.queries), convert_to_tensor=True)
    found = mined(load_dataset(str(tmp_path / "out")))
    assert found == brute(dataset, queries @ corrected.T, 3)
    assert found != brute(dataset, queries @ buffer.T, 3)  # the stale view finds others
    assert any("layers" in name for name in load_file(run / "corrector.safetensors"))


def test_filters_count_what_they_drop(
    beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--data", beir, "--hard-negatives", 3, "--max-score", 0.6]
    assert mine(tmp_path / "out", *flags) == 0
    shown = capsys.readouterr().out
    assert "of 2,400 candidates dropped: max_score" in shown  # 80 queries, 3 x 10 each
    assert "negatives for 80 queries of train" in shown


def test_bad_flags_are_refused_and_leave_nothing(
    run: Path, beir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, other = ["--data", beir], tmp_path / "other.csv"
    other.write_text("query,positive\na,b\nc,d\ne,f\ng,h\ni,j\n")
    for flags, rule in [
        ([], "--data is required"),
        ([*data, "--format", "ir_datasets"], "can be read, but not written"),
        ([*data, "--split", "extra"], "no split 'extra'"),
        ([*data, "--hard-negatives", 120], "cannot mine 120 negatives from 120 targets"),
        ([*data, "--range-min", 3, "--range-max", 4], "cannot mine 4 targets"),
        (["--run", beir], "is not a finished run that keeps its corrector"),
        (["--run", run, "--data", other], "was made of other texts than other"),
    ]:
        assert mine(tmp_path / "out", *flags) == 2
        assert rule in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_the_working_folder_may_be_the_output(
    beir: Path, bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    flags = ["--data", beir, "--model", bert_folder, "--hard-negatives", 2, "--format", "csv"]
    assert mine(Path(), *flags) == 0
    assert Path("train.csv").is_file()
    assert [p.name for p in tmp_path.iterdir()] == ["here"]


def test_ids_that_cannot_be_written_are_refused_before_the_work(
    bert_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"query_id": "a\tb", "query": "q", "positive": "p"}
    data = write(tmp_path / "x.jsonl", record, {"query": "r", "positive": "s"})
    flags = ["--data", data, "--model", bert_folder, "--hard-negatives", 1]
    assert mine(tmp_path / "out", *flags, "--format", "beir") == 2
    assert "query 1 of x has the id 'a\\tb'" in capsys.readouterr().err
