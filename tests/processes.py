"""Train a little, in one process or in several under torchrun, and write down what happened.

torchrun --nproc-per-node 2 tests/processes.py OUTPUT DATA MODEL STEPS [flags of `train`]
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from unstale.cli import options
from unstale.cli.train import training_settings
from unstale.data.formats.beir import read_beir
from unstale.distributed import barrier, exchange, rank, start
from unstale.encoders.load import load_encoder
from unstale.training.job import train
from unstale.training.trainer import FreshTrainer

SMALL = {"batch_size": 8, "hard_negatives": 3, "corrector_hidden": 24, "probe_queries": 8}
SMALL |= {"probe_targets": 40, "learning_rate": 1e-3, "refresh": 3, "search": "exact"}


def trace(output: Path, data: str, model: str, steps: int, **flags: object) -> None:
    """Write the first step's gradients, every step's loss, and the results."""
    start("cpu")
    losses: list[float] = []
    first: dict[str, torch.Tensor] = {}
    clip, step = FreshTrainer._clip_grad_norm, FreshTrainer.training_step

    def clipping(self: FreshTrainer, wrapped: torch.nn.Module) -> object:
        if not first:
            for name, p in [
                *self.model.named_parameters(),
                *self.fresh_loss.miner.named_parameters(),
            ]:
                if p.grad is not None:
                    first[name] = p.grad.clone()
        return clip(self, wrapped)

    def stepping(self: FreshTrainer, *args: object, **kwargs: object) -> torch.Tensor:
        loss = step(self, *args, **kwargs)
        said = exchange(float(loss))
        losses.append(sum(said) / len(said))
        return loss

    FreshTrainer._clip_grad_norm, FreshTrainer.training_step = clipping, stepping
    try:
        chosen = options.Train(**SMALL | flags | {"steps": steps, "uniform_negatives": 1})
        settings = training_settings(chosen) | {"progress": False}
        encoder = load_encoder(model, towers="separate", layers=1, device="cpu")
        result = train(read_beir(Path(data)), encoder, output, **settings)
    finally:
        FreshTrainer._clip_grad_norm, FreshTrainer.training_step = clip, step
    if rank() == 0:
        save_file(first, output / "gradients.safetensors")
        found = {"losses": losses, "metrics": result["metrics"], "freshness": result["freshness"]}
        found |= {k: v for k, v in result.items() if k.startswith("targets_")}
        (output / "trace.json").write_text(json.dumps(found))
    barrier()


if __name__ == "__main__":
    where, data, model, steps, *rest = sys.argv[1:]
    extra = json.loads(rest[0]) if rest else {}
    trace(Path(where), data, model, int(steps), **extra)
