"""What counts as a training's time."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from jaxtyping import Int
from torch import Tensor
from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments

from unstale.miners.miner import Embed, Embedded, Miner, Queries
from unstale.training.callbacks import Algorithm, Steps
from unstale.training.record import RunRecord


class Embedding(Miner):
    """Embed targets after the first step, in ten seconds."""

    def __init__(self, embedded: Embedded, clock: list[float]) -> None:
        super().__init__()
        self.embedded, self.clock = embedded, clock

    def mine(self, queries: Queries, k: int) -> Int[Tensor, "b m"]:
        return torch.zeros(len(queries.rows), 0, dtype=torch.long)

    def refresh(self, step: int, embed: Embed) -> Embedded:
        if step > 1:
            return Embedded()
        self.clock[0] += 10
        return self.embedded


@pytest.mark.parametrize(
    ("embedded", "training", "embedding"),
    [(Embedded(first=3), 2, 10), (Embedded(refreshed=3), 12, 0)],
)
def test_a_refresh_is_training_and_the_first_embedding_is_not(
    embedded: Embedded,
    training: float,
    embedding: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [100.0]
    watch = SimpleNamespace(perf_counter=lambda: clock[0])
    monkeypatch.setattr("unstale.training.callbacks.time", watch)
    algorithm = Algorithm()
    algorithm.miner, algorithm.record = Embedding(embedded, clock), RunRecord()
    steps = Steps(Trainer.__new__(Trainer), algorithm, None, every=1)
    run = (
        TrainingArguments(str(tmp_path), use_cpu=True, report_to="none"),
        TrainerState(max_steps=9),
        TrainerControl(),
    )
    steps.on_train_begin(*run)
    for step in (1, 2):  # each takes a second
        run[1].global_step = step
        clock[0] += 1
        steps.on_step_end(*run)
    counters = algorithm.record.counters
    assert (counters.training_seconds, counters.embedding_seconds) == (training, embedding)
