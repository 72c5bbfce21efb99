"""Group maxima lose nothing: the merged top-k is the top-k of everything."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale.search.best import merge, nothing


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 900),
    k=st.integers(1, 40),
    chunk=st.integers(1, 900),
    ties=st.booleans(),
)
def test_merged_chunks_are_the_top_k_of_all(
    seed: int, n: int, k: int, chunk: int, ties: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, n, generator=generator)
    if ties:
        scores = scores.round()  # many equal scores, the k-th among them
    best = nothing(torch.zeros(3, 4))
    for start in range(0, n, chunk):
        best = merge(best, scores[:, start : start + chunk], start, k)
    k = min(k, n)
    assert torch.equal(best.scores, scores.topk(k, dim=1).values)
    assert torch.equal(best.scores, scores.gather(1, best.rows))
    assert all(len(set(rows)) == k for rows in best.rows.tolist())
