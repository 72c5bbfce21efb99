"""`unstale correct` on a table: grown, swapped, refused, and killed after the swap."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.migration.store_families import family_of

from unstale.cli.main import main
from unstale.data.formats.beir import read_beir
from unstale.encoders.load import load_encoder
from unstale.migration.stores.vectors import StoreVectors
from unstale.migration.vectors import open_vectors


@pytest.mark.slow
def test_a_table_is_migrated_grown_and_swapped_by_the_command(
    beir: Path, bert_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lancedb = pytest.importorskip("lancedb", reason="needs unstale[lancedb]")
    dataset = read_beir(beir)
    order = np.random.default_rng(0).permutation(len(dataset.targets))
    made = load_encoder("tiny").encode_document(dataset.targets.take(order))
    flat = pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1)), made.shape[1])
    table = pa.table({"id": dataset.target_ids.take(order), "vector": flat})
    base = lancedb.connect(tmp_path / "base")
    docs = base.create_table("docs", table.slice(0, 119))
    output = ["--output", str(tmp_path / "new")]
    words = ["correct", "--vectors", f"lancedb:{tmp_path / 'base'}#docs", "--data", str(beir)]
    words += ["--model", str(bert_folder), "--count", "80", "--method", "linear", *output]
    assert main(words) == 0
    assert "were added" not in capsys.readouterr().out
    docs.add(table.slice(119))
    docs.delete(f"id = '{table['id'][5].as_py()}'")
    for more in (["--re-embed", "20"], ["--re-embed", "1", "--swap"]):
        assert main(["correct", "--resume", *more, *output]) == 0
    said = capsys.readouterr().out
    assert said.count("1 rows were added and 1 deleted") == 1
    assert "now has the rows of docs-new" in said
    served = base.open_table("docs").to_arrow()
    assert served["is_fresh"].to_pylist() == [True] * 119
    order = np.delete(order, 5)
    assert served["id"].to_pylist() == dataset.target_ids.take(order)
    whole = load_encoder(str(bert_folder)).encode_document(
        dataset.targets.take(order), normalize_embeddings=True
    )
    np.testing.assert_allclose(np.array(served["vector"].to_pylist()), whole, atol=1e-5)
    assert main(["correct", "--resume", "--re-embed", "10", *output]) == 2  # of what is gone
    assert "changed since" in capsys.readouterr().err


def test_a_migration_whose_swap_is_refused_is_not_finished(
    beir: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    """`--resume --swap` tries again, and `--resume` of a finished one sees rows that came since."""
    dataset = read_beir(beir)
    ids = list(dataset.target_ids)
    made = load_encoder("tiny").encode_document(list(dataset.targets))
    family, place = family_of("lancedb"), tmp_path / "base"
    place.mkdir()
    address = family.add(place, made[:119], ids[:119])
    output = ["--output", str(tmp_path / "new")]
    words = ["correct", "--vectors", address, "--data", str(beir), "--model", "tiny"]
    words += ["--count", "80", "--method", "linear", *output]
    swap = StoreVectors.swap

    def late(source: StoreVectors, folder: Path) -> str:
        family.add(place, made, ids)  # a row comes at the last moment
        return swap(source, folder)

    monkeypatch.setattr(StoreVectors, "swap", late)
    assert main([*words, "--swap"]) == 2
    assert "is not swapped: 1 rows were added and 0 deleted just now" in capsys.readouterr().err
    assert not (tmp_path / "new" / "files.json").exists()
    monkeypatch.setattr(StoreVectors, "swap", swap)
    assert main(["correct", "--resume", *output, "--swap"]) == 0
    said = capsys.readouterr().out
    assert "1 rows were added and 0 deleted" in said
    assert "now has the rows of docs-new" in said
    assert len(family.payload(address)) == 120


def test_a_kill_between_the_swap_and_its_note_leaves_nothing_to_do(
    beir: Path, bert_folder: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    """The old vectors are served no more, so the migration could not be run again."""
    dataset = read_beir(beir)
    made = load_encoder("tiny").encode_document(list(dataset.targets))
    place = tmp_path / "base"
    place.mkdir()
    address = family_of("lancedb").add(place, made, list(dataset.target_ids))
    output = ["--output", str(tmp_path / "new")]
    words = ["correct", "--vectors", address, "--data", str(beir)]
    words += ["--model", str(bert_folder), "--count", "80", "--method", "linear", *output, "--swap"]
    with monkeypatch.context() as patch:
        patch.setattr("unstale.cli.output.RunFolder.seal", lambda folder: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            main(words)
    assert not (tmp_path / "new" / "files.json").exists()
    again = shutil.copytree(tmp_path / "new", tmp_path / "again")
    capsys.readouterr()
    main([*words, "--output", str(again), "--overwrite"])  # another migration
    assert "the swap was done" not in capsys.readouterr().out
    assert main(["correct", "--resume", *output]) == 0
    assert "the swap was done" in capsys.readouterr().out
    assert (tmp_path / "new" / "files.json").exists()
    assert open_vectors(address).rows == len(dataset.targets)


def test_rows_that_came_after_a_swap_that_failed_do_not_pass_for_the_swap(
    beir: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    """A database may need hours to index the new vectors, and be killed meanwhile."""
    dataset, place = read_beir(beir), tmp_path / "base"
    ids = list(dataset.target_ids)
    made = load_encoder("tiny").encode_document(list(dataset.targets))
    place.mkdir()
    family = family_of("lancedb")
    address = family.add(place, made[1:], ids[1:])
    output = ["--output", str(tmp_path / "new")]
    words = ["correct", "--vectors", address, "--data", str(beir), "--model", "tiny"]
    words += ["--count", "80", "--method", "linear", *output, "--swap"]
    with monkeypatch.context() as patch:
        patch.setattr("unstale.migration.stores.lance.LanceStore.swap", lambda store: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            main(words)
    made[7] = made[8]  # updated
    family.add(place, made, ids)  # and the first is new
    capsys.readouterr()
    assert main(["correct", "--resume", *output, "--swap"]) == 0
    said = capsys.readouterr().out
    assert "the swap was done" not in said
    assert "now has the rows of docs-new" in said
