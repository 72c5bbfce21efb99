"""What is embedded for real is what matters, and what is left behind can still be judged."""

import argparse
import asyncio
import decimal
import inspect
import os
import shutil
import socket
import statistics
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from unstale.encoders.load import load_encoder
from unstale.migration.learn import learn
from unstale.migration.sample import error_scores, most, retrieval_scores
from unstale.migration.settings import MigrateSettings
from unstale.migration.vectors import ArrayVectors


def test_targets_are_scored_by_how_often_and_how_high_they_are_found() -> None:
    # The first query ranks 0, 1, 2; the second 2, 1, 0. Two deep, by pieces of two rows:
    vectors = torch.tensor([[3.0, 1.0], [2.0, 2.0], [1.0, 3.0]])
    index = [(0, vectors[:2]), (2, vectors[2:])]
    scores = retrieval_scores(torch.eye(2), index, rows=3, depth=2)
    assert scores.tolist() == [1.0, 0.5 + 0.5, 1.0]


def test_leverage_by_hand() -> None:
    # Means 0, variances 8 and 0.5 about it; the ridge is 0.1 times their mean, 0.425.
    taught = torch.tensor([[4.0, 0.0], [-4.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    stale = np.array([[3.0, 0.0], [0.0, 3.0], [0.0, 0.0]], np.float32)
    scores = error_scores(ArrayVectors(Path("v.npy"), stale), taught)
    np.testing.assert_allclose(scores, [9 / 8.425, 9 / 0.925, 0], rtol=1e-5)


def test_the_worst_are_predicted_worse_than_a_random_choice(
    bert_model: SentenceTransformer,
) -> None:
    modules = (argparse, asyncio, decimal, os, shutil, socket, statistics, subprocess)
    docs = {inspect.getdoc(getattr(m, name)) or "" for m in modules for name in dir(m)}
    texts = sorted({doc.partition("\n")[0] for doc in docs if len(doc) > 20})
    stale = torch.from_numpy(load_encoder("tiny", device="cpu").encode_document(texts))
    fresh = torch.from_numpy(bert_model.encode_document(texts))
    gains = []
    for seed in range(5):
        order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed))
        taught, rest = order[:200], order[200:]
        linear = MigrateSettings(method="linear")
        learned = learn(stale[taught], fresh[taught], np.zeros(200, bool), linear)
        with torch.no_grad():
            errors = (learned.corrector(stale[rest]) - fresh[rest]).square().sum(dim=1)
        source = ArrayVectors(Path("v.npy"), stale[rest].numpy())
        scores = error_scores(source, stale[taught])
        worst = torch.from_numpy(scores).topk(len(rest) // 5).indices
        gains.append((errors[worst].mean() / errors.mean()).item())
    assert min(gains) > 1.1  # a random fifth has a ratio of 1 on average


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
