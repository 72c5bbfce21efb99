"""The sizes of a parquet file's columns, and damage at which pyarrow itself ends the process."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unstale.data.formats.arrow import open_parquet
from unstale.data.formats.footer import column_chunks
from unstale.errors import InputError


@pytest.mark.parametrize(
    "how", [{}, {"row_group_size": 7}, {"compression": "zstd", "write_page_index": True}]
)
def test_sizes_are_those_of_pyarrow(how: dict, tmp_path: Path) -> None:
    lists, records = [[1.0] * i for i in range(20)], [{"a": i, "b": i % 2 == 0} for i in range(20)]
    table = pa.table({"id": [f"t{i}" for i in range(20)], "lists": lists, "records": records})
    pq.write_table(table, tmp_path / "a.parquet", **how)
    meta = pq.read_metadata(tmp_path / "a.parquet")
    columns = [
        meta.row_group(g).column(c)
        for g in range(meta.num_row_groups)
        for c in range(meta.num_columns)
    ]
    assert [tuple(chunk) for chunk in column_chunks(tmp_path / "a.parquet")] == [
        (c.path_in_schema, c.num_values, c.total_uncompressed_size, c.total_compressed_size)
        for c in columns
    ]


def test_no_damage_of_the_footer_ends_the_process(tmp_path: Path) -> None:
    """A bit here and there: `RowGroupMetaData.column` aborts at about one in a hundred."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "text": ["x", "y"]}), path, store_schema=False)
    good, refused = path.read_bytes(), 0
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    for at in range(footer, len(good)):
        for bit in (0, 3, 6):
            spoilt = bytearray(good)
            spoilt[at] ^= 1 << bit
            path.write_bytes(spoilt)
            try:
                list(open_parquet(path).iter_batches(10))
            except (InputError, pa.ArrowException, OSError):  # readers of tables name the latter
                refused += 1
    assert refused > 50


def test_a_footer_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for footer in (
        b"",
        b"\x15",
        b"\x1c" * 40,
        b"\x19" + b"\xfc" + b"\xff" * 9,
        b"\x18\xff\xff\x03",
    ):
        path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
        with pytest.raises(InputError, match=r"a\.parquet is not a parquet file"):
            list(column_chunks(path))
