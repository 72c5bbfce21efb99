"""Which way is advised, by what 100 judged queries find."""

import numpy as np

from unstale.migration.verdict import best_way
from unstale.migration.ways import ALL, PART, QUERY_SIDE, STAY, WAYS


def found(**gains: tuple[int, int]) -> dict[str, np.ndarray]:
    """Half of the queries find their target; a way finds some more, and loses some."""
    values = {}
    for way in WAYS:
        more, fewer = gains.get(way.replace(" ", "_").replace("-", "_"), (0, 0))
        one = np.zeros(100)
        one[: 50 + more] = 1
        one[:fewer] = 0
        values[way] = one
    return values


def test_the_cheapest_of_equals_is_advised() -> None:
    assert best_way(found()) == STAY
    assert best_way(found(query_side=(1, 0), re_embed_a_part=(1, 0))) == QUERY_SIDE
    # A gain of two queries in 100 that is no larger than chance, as it is the best guess:
    assert best_way(found(re_embed_a_part=(10, 8))) == PART


def test_embedding_everything_needs_more_than_a_standard_error() -> None:
    # 3 more of 100: 0.03, with a standard error of sqrt(0.03 * 0.97 / 99) = 0.017.
    assert best_way(found(re_embed_all=(3, 0))) == ALL
    # 10 more and 8 fewer: 0.02, with one of about sqrt(0.18 / 99) = 0.042.
    assert best_way(found(re_embed_all=(10, 8))) == STAY
    assert best_way(found(re_embed_all=(10, 8), query_side=(1, 0))) == QUERY_SIDE
