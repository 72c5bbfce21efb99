"""One byte budget for every reader: no small file takes much memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.bombs import ALIASES, BOMBS, repeated

from unstale.budget import RECORD, lines_of, read_object, read_small
from unstale.cli.config import read_flags
from unstale.cli.main import main
from unstale.data import lines
from unstale.data.formats.arrow import open_parquet, parts
from unstale.errors import InputError


def test_aliases_of_yaml_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(ALIASES)
    assert len(ALIASES) < 600
    with pytest.raises(InputError, match=r"aliases \(\*name\) are not read"):
        read_flags(path)
    assert main(["train", "--config", str(path)]) == 2
    assert "aliases" in capsys.readouterr().err
    path.write_text("steps: &n 3\n")  # an anchor that nothing refers to
    assert read_flags(path) == {"steps": 3}


def test_a_file_of_flags_is_small(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("#" * 2**21)
    with pytest.raises(InputError, match=r"config\.yaml: the file takes more than 1 MB"):
        read_flags(tmp_path / "config.yaml")


@pytest.mark.parametrize("read", [read_small, read_object])
def test_a_small_file_that_is_large_is_refused(read, tmp_path: Path) -> None:
    with (tmp_path / "files.json").open("wb") as file:
        file.truncate(2 * RECORD)
    with pytest.raises(InputError, match=r"files\.json: the file takes more than 32 MB"):
        read(tmp_path / "files.json")


def test_an_endless_line_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"first\n" + b"x" * (RECORD + 1))
    with path.open("rb") as file, pytest.raises(InputError, match=r"a\.jsonl:2: the line takes"):
        list(lines_of(file, path))


def test_a_csv_row_and_an_element_of_an_array_have_the_same_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "RECORD", 1000)
    monkeypatch.setattr(lines, "_PIECE", 100)
    table, array = tmp_path / "a.csv", tmp_path / "a.json"
    table.write_text("a,b\n1,2\n" + 40 * ('"' + "x" * 50 + '\n",'))
    with pytest.raises(InputError, match=r"a\.csv:\d+: the row .* takes more than"):
        list(lines.csv_rows(table, progress=False))
    array.write_text(json.dumps([{"a": 1}, {"b": "x" * 3000}]))
    with pytest.raises(InputError, match=r"a\.json:1: one element of the array takes"):
        list(lines.json_records(array, progress=False))
    small = [{"n": i, "t": "x" * 300} for i in range(20)]
    array.write_text(json.dumps({"Data": small, "Version": 1.0}))  # as TriviaQA has it
    assert [record for _, record in lines.json_records(array, progress=False)] == small


def test_rows_of_a_table_are_read_within_the_budget(tmp_path: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 0, None]), pa.array(["x" * 9, "y"]))
    batch = pa.record_batch([texts, pa.array([["a", "b"], [], None, ["c"], ["d"]])], ["t", "n"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unstale.data.formats.arrow.RECORD", 300)
        found = list(parts(batch, "table", 1))
        assert len(found) > 1
        assert [row for part in found for row in part.to_pylist()] == batch.to_pylist()
        patch.setattr("unstale.data.formats.arrow.RECORD", 100)
        with pytest.raises(InputError, match="table, row 1: the row takes more than"):
            list(parts(batch, "table", 1))
    plain = pa.table({"t": ["x" * 2000] * 100})
    pq.write_table(plain, tmp_path / "b.parquet", use_dictionary=False, compression="zstd")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unstale.data.formats.arrow.RECORD", 2**17)
        with pytest.raises(InputError, match=r"b\.parquet: column 't' of a row group takes more"):
            open_parquet(tmp_path / "b.parquet")
    repeated(tmp_path / "a.parquet", "x" * 5000, rows=64)
    (piece,) = open_parquet(tmp_path / "a.parquet").iter_batches(64)
    assert piece.nbytes < 64 * 5000 / 2  # it is held as it is stored


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_read_or_refused_in_little_memory(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bombs", name, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(("refused: ", "read")), done.stdout
