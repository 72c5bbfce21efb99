"""Finished runs, small: one of Algorithm 1, one of Algorithm 2."""

from pathlib import Path

import pytest

from unstale.cli.main import main

_SMALL = "--batch-size 8 --corrector-hidden 16 --probe-queries 4 --probe-targets 20 --layers 1"


_KEPT = ["--no-guard", "--strategy", "corrected"]  # the last weights, and the corpus as it was


@pytest.fixture(scope="session")
def trained(beir: Path, bert_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose learning rate moves ranks within a few steps."""
    run = tmp_path_factory.mktemp("serve") / "trained"
    words = ["train", "--data", str(beir), "--model", str(bert_folder), "--output", str(run)]
    assert main([*words, *_SMALL.split(), "--steps", "4", "--learning-rate", "0.01", *_KEPT]) == 0
    return run


@pytest.fixture(scope="session")
def read(beir: Path, bert_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a reader."""
    run = tmp_path_factory.mktemp("serve") / "read"
    words = ["rag", "--data", str(beir), "--retriever", str(bert_folder), "--output", str(run)]
    assert main([*words, *_SMALL.split(), "--steps", "2", "--k", "3"]) == 0
    return run
