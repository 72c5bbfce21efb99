"""The index answers as a dict does."""

from hypothesis import given
from hypothesis import strategies as st

from unstale.data.rows import Index


@given(st.lists(st.one_of(st.text(max_size=3), st.binary(max_size=3))))
def test_it_is_a_dict_that_keeps_the_first(keys: list[str | bytes]) -> None:
    index, expected = Index(), {}
    for row, key in enumerate(keys):
        assert index.put(key, row) == expected.setdefault(key, row)
    assert {key: index.find(key) for key in expected} == expected


def test_it_grows_and_finds_everything_again() -> None:
    index = Index()
    for row in range(20_000):  # past several doublings of the first 1,024 slots
        assert index.put(f"key {row}", row) == row
    assert all(index.find(f"key {row}") == row for row in range(20_000))
    assert index.find("key 20000") is None
    assert index.find(b"key 7") is None  # bytes are not the text
