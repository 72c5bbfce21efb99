"""What is embedded for real is what matters, and what is left behind can still be judged."""

import numpy as np
import pytest
import torch

from unstale.migration.sample import most, retrieval_scores


def test_targets_are_scored_by_how_often_and_how_high_they_are_found() -> None:
    # The first query ranks 0, 1, 2; the second 2, 1, 0. Two deep, by pieces of two rows:
    vectors = torch.tensor([[3.0, 1.0], [2.0, 2.0], [1.0, 3.0]])
    index = [(0, vectors[:2]), (2, vectors[2:])]
    scores = retrieval_scores(torch.eye(2), index, rows=3, depth=2)
    assert scores.tolist() == [1.0, 0.5 + 0.5, 1.0]


def test_the_highest_that_are_not_embedded_are_picked_and_their_peers_set_apart() -> None:
    scores = np.arange(40, dtype=np.float32)
    embedded = np.array([38, 35, *range(12)])
    held_out = np.array([35, 36 - 25, *range(10)])  # 12 of the embedded ones
    picked = most(scores, embedded, held_out, wanted=4, seed=0)
    assert picked.rows.tolist() == [34, 36, 37, 39]
    assert picked.apart.tolist() == [35]  # it ranks before 34


def test_too_few_to_judge_by_are_not_made_fewer() -> None:
    scores = np.arange(40, dtype=np.float32)
    held_out = np.arange(30, 40)
    picked = most(scores, held_out, held_out, wanted=5, seed=0)
    assert picked.rows.tolist() == [25, 26, 27, 28, 29]
    assert len(picked.apart) == 0


def test_ties_are_broken_by_lot_so_that_held_out_rows_go_with_their_equals() -> None:
    # Of 1000 equal rows 300 are held out; 350 of the other 700 are picked, so about half of the
    # held-out ones would have been.
    scores, held_out = np.zeros(1000, np.float32), np.arange(300)
    picked = most(scores, held_out, held_out, wanted=350, seed=0)
    assert len(picked.rows) == 350
    assert len(picked.apart) == pytest.approx(150, abs=30)  # 3.5 standard deviations of 8.7
