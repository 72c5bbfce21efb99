"""A stock trainer around fresh negatives, on the small world."""

from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)

from unstale import FreshNegatives
from unstale.data.dataset import RetrievalDataset

SMALL = {"strategy": "corrected", "hard_negatives": 2, "corrector_hidden": (24,), "progress": False}
SMALL |= {"probe_queries": 8, "probe_targets": 40}


@pytest.fixture(scope="session")
def rows(dataset: RetrievalDataset) -> Dataset:
    """The training pairs of the small world as columns of text."""
    pairs = dataset.split("train").pairs
    queries, positives = dataset.queries.take(pairs[:, 0]), dataset.targets.take(pairs[:, 1])
    return Dataset.from_dict({"query": queries, "positive": positives})


@pytest.fixture
def stock(rows: Dataset, tmp_path: Path) -> Callable[..., tuple[FreshNegatives, object]]:
    """Make fresh negatives and the stock trainer they are attached to."""

    def make(
        model: SentenceTransformer,
        given: dict | None = None,
        options: dict | None = None,
        **arguments,
    ) -> tuple[FreshNegatives, SentenceTransformerTrainer]:
        values = {"train_dataset": rows} | SMALL | (options or {})
        fresh = FreshNegatives(model, **values)
        settings = {"output_dir": str(tmp_path / "out"), "max_steps": 4, "report_to": "none"}
        settings |= {"per_device_train_batch_size": 8, "learning_rate": 1e-2, "use_cpu": True}
        settings |= {"save_strategy": "no", "disable_tqdm": True, "dataloader_pin_memory": False}
        args = SentenceTransformerTrainingArguments(**settings | arguments)
        trainer = SentenceTransformerTrainer(
            model, args, fresh.dataset, loss=fresh.loss, **(given or {})
        )
        return fresh, fresh.attach(trainer)

    return make
