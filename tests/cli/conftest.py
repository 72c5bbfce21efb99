"""What most commands are given here: a small world, and a model of which a checkpoint is small."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def small(beir: Path, static_folder: Path) -> list[str]:
    return ["--data", str(beir), "--model", str(static_folder)]
