"""Train a little, in one process or in several under torchrun, and write down what happened.

torchrun --nproc-per-node 2 tests/processes.py OUTPUT DATA MODEL STEPS [flags of `train`, as JSON]

The flag `rag` stands for Algorithm 2, and `rambling` for a reader that is sure of nonsense.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from unstale.data.formats.beir import read_beir
from unstale.distributed import barrier, exchange, rank, start
from unstale.encoders.load import load_encoder
from unstale.filters import Filters
from unstale.rag.job import train_rag
from unstale.rag.questions import QuestionSet
from unstale.rag.tiny_reader import tiny_reader
from unstale.rag.trainer import RagTrainer
from unstale.training.job import train
from unstale.training.trainer import FreshTrainer

SMALL = {"batch_size": 8, "corrector_hidden": 24, "probe_queries": 8, "probe_targets": 40}
SMALL |= {"learning_rate": 1e-3, "refreshes": 3, "search": "exact"}
# Adam makes a whole step of any gradient, also of one that is zero but for rounding, which is
# what differs between numbers of processes.
SMALL |= {"trainer": {"adam_epsilon": 1e-3}}


def trace(output: Path, data: str, model: str, steps: int, **flags: Any) -> None:
    """Write the first step's gradients, every step's loss, and the results."""
    start("cpu")
    flags = SMALL | flags | {"steps": steps}
    rag, rambling = flags.pop("rag", False), flags.pop("rambling", False)
    if "filters" in flags:
        flags["filters"] = Filters(**flags["filters"])
    with watching(RagTrainer if rag else FreshTrainer) as (losses, first):
        encoder = load_encoder(model, towers="separate", layers=1, device="cpu")
        if rag:
            questions = QuestionSet.of(read_beir(Path(data)))
            limits = {"width": 16, "layers": 1, "max_length": 40, "answer_length": 6}
            reader = tiny_reader(questions.texts(), **limits)
            for weight in reader.parameters() if rambling else ():
                weight.data.mul_(4)
            result = train_rag(questions, encoder, reader, output, k=3, progress=False, **flags)
        else:
            flags = {"hard_negatives": 3, "uniform_negatives": 1, **flags}
            result = train(read_beir(Path(data)), encoder, output, progress=False, **flags)
    if rank() == 0:
        save_file(first, output / "gradients.safetensors")
        entry = result.to_json()
        found = {"losses": losses, "metrics": entry["metrics"], "freshness": entry["freshness"]}
        kept = ("targets_", "reader_", "train_", "retriever_", "steps", "candidates_")
        found |= {k: v for k, v in entry.items() if k.startswith(kept)}
        (output / "trace.json").write_text(json.dumps(found))
    barrier()


@contextmanager
def watching(trainer: type) -> Iterator[tuple[list[float], dict[str, torch.Tensor]]]:
    """Note the losses of all steps and the gradients of the first, over all processes."""
    losses: list[float] = []
    first: dict[str, torch.Tensor] = {}
    clip, step = trainer._clip_grad_norm, trainer.training_step

    def clipping(self: Any, wrapped: torch.nn.Module) -> object:
        if not first:
            algorithm = self.algorithm
            for name, p in algorithm.named_parameters():
                if p.grad is not None:
                    first[name] = p.grad.clone()
        return clip(self, wrapped)

    def stepping(self: Any, *args: object, **kwargs: object) -> torch.Tensor:
        loss = step(self, *args, **kwargs)
        said = exchange(float(loss))
        losses.append(sum(said) / len(said))
        return loss

    trainer._clip_grad_norm, trainer.training_step = clipping, stepping
    try:
        yield losses, first
    finally:
        trainer._clip_grad_norm, trainer.training_step = clip, step


if __name__ == "__main__":
    where, data, model, steps, *rest = sys.argv[1:]
    extra = json.loads(rest[0]) if rest else {}
    trace(Path(where), data, model, int(steps), **extra)
