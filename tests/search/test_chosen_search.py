"""Which search is chosen, and does it say why?"""

import pytest
import torch
from tests.search.clusters import MODES, clustered

from unstale.buffer.buffer import TargetBuffer
from unstale.errors import InputError
from unstale.search.auto import Choice, choose, make_search


@pytest.mark.parametrize("mode", ["exact", "rolling", "ivf"])
def test_more_than_there_are_is_an_error(mode: str) -> None:
    queries, stale, network = clustered(12, 8, seed=4)
    search = MODES[mode](TargetBuffer([stale]), network)
    with pytest.raises(InputError, match="cannot take the top 64 of a buffer of 12 targets"):
        search.top_k(queries, 64)
    with pytest.raises(InputError, match="too few are not its positives"):
        search.top_k(queries, 12, torch.zeros(9, 1, dtype=torch.long))


def test_auto_says_what_and_why() -> None:
    assert choose(10**7, 384, (), 32).mode == "exact"
    assert choose(2000, 384, (1536,), 32).mode == "exact"
    rolling = choose(100_000, 384, (1536,), 32)
    assert rolling[:2] == ("rolling", "float32")
    # (2 D H + 2 H Q) / (2 D Q) = H/Q + H/D = 48 + 4
    assert "52 times those of a scan" in rolling.why
    assert choose(10**7, 384, (1536,), 32, precision="int8")[:2] == ("ivf", "int8")


@pytest.mark.parametrize("mode", ["exact", "rolling", "ivf"])
def test_make_search_builds_what_was_chosen(mode: str) -> None:
    queries, stale, network = clustered(300, 8, seed=5)
    search = make_search(Choice(mode, "int8", ""), TargetBuffer([stale]), network)  # type: ignore[arg-type]
    assert isinstance(search, MODES[mode])
    assert search.top_k(queries, 5).rows.shape == (9, 5)


def test_a_search_by_name_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    assert choose(2000, 384, (1536,), 32, mode="ivf", precision="int8")[:2] == ("ivf", "int8")
    assert "search: ivf, a snapshot in int8: as asked" in caplog.text
