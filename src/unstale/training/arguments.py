"""What every training tells transformers' Trainer."""

from pathlib import Path
from typing import Any

import torch

from unstale.distributed import world


def merged(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Let a user's arguments replace ours, but add to a mapping what it does not speak of.

    Example:
        >>> merged({"seed": 0, "prompts": {"query": "q: "}}, {"seed": 1, "prompts": {"other": ""}})
        {'seed': 1, 'prompts': {'query': 'q: ', 'other': ''}}
    """
    mappings = {k: v for k, v in theirs.items() if isinstance(v, dict)}
    return ours | theirs | {k: (ours.get(k) or {}) | v for k, v in mappings.items()}


def trainer_arguments(
    output: Path,
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    save_steps: int,
    device: torch.device,
    progress: bool,
) -> dict[str, Any]:
    """Return the arguments that retrievers and readers share; see `train` for what they mean."""
    return {
        "output_dir": str(output / "checkpoints"),
        "max_steps": steps,
        "per_device_train_batch_size": batch_size // world(),
        "learning_rate": learning_rate,
        "warmup_steps": min(1.0, 10 / steps) if steps > 10 else 0,
        "seed": seed,
        "report_to": "none",
        "logging_steps": max(1, steps // 20),
        "save_strategy": "steps" if save_steps else "no",
        "save_steps": save_steps or steps,
        "dataloader_drop_last": True,
        "dataloader_pin_memory": device.type != "cpu",
        "use_cpu": device.type == "cpu",
        "disable_tqdm": not progress,
    }
