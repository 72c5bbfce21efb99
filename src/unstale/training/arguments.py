"""Which arguments of transformers' Trainer may a run be given, and why not the others?"""

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from tempfile import TemporaryDirectory
from typing import Any

from unstale.errors import InputError

# They change a result. They are recorded with the run, and a resumed run must have the same.
_RECORDED = set(
    "adam_beta1 adam_beta2 adam_epsilon bf16 fp16 full_determinism gradient_accumulation_steps "
    "gradient_checkpointing gradient_checkpointing_kwargs lr_scheduler_kwargs lr_scheduler_type "
    "max_grad_norm optim optim_args optim_target_modules tf32 torch_compile "
    "torch_compile_backend torch_compile_mode warmup_steps weight_decay".split()
)
# They change none. A resumed run may have others.
_FREE = set(
    "dataloader_pin_memory ddp_timeout disable_tqdm log_level log_level_replica "
    "logging_first_step logging_steps logging_strategy project report_to run_name "
    "skip_memory_metrics torch_empty_cache_steps".split()
)
# What depends on the machine or on the model.
_UNTRIED = {"bf16", "fp16", "tf32", "gradient_checkpointing", "gradient_checkpointing_kwargs"}
_TRIED: list[dict[str, Any]] = []  # without an error, by this process
_INEXACT = "a resumed run would not end as an uninterrupted one"
_AWAY = "unstale sends nothing away; push the finished model yourself"
_OWN = "unstale averages gradients between processes itself"
_FORKED = "batches are made in the training process: a tokenizer that has worked cannot be forked"
_WHY = {
    "auto_find_batch_size": "use --batch-size",
    "data_seed": "use --seed",
    "dataloader_num_workers": _FORKED,
    "dataloader_persistent_workers": _FORKED,
    "dataloader_prefetch_factor": _FORKED,
    "deepspeed": _OWN,
    "eval_steps": "use --eval-steps",
    "eval_strategy": "use --eval-steps",
    "fsdp": _OWN,
    "fsdp_config": _OWN,
    "ignore_data_skip": _INEXACT,
    "learning_rate": "use --learning-rate",
    "learning_rate_mapping": "use --learning-rate and --corrector-lr",
    "max_steps": "use --steps",
    "num_train_epochs": "use --steps or --epochs",
    "output_dir": "use --output",
    "per_device_train_batch_size": "use --batch-size",
    "prompts": "use --query-prompt and --target-prompt",
    "push_to_hub": _AWAY,
    "resume_from_checkpoint": "use --resume",
    "save_only_model": _INEXACT,
    "save_steps": "use --save-steps",
    "save_strategy": "use --save-steps",
    "save_total_limit": "use --keep-checkpoints",
    "seed": "use --seed",
    "use_cpu": "use --device",
    "warmup_ratio": "use --trainer.warmup_steps, which may be a part of the run, such as 0.1",
}


def check_names(given: Iterable[str]) -> None:
    """Refuse an argument that a run does not take, and say why; nothing is imported for it."""
    taken = sorted(_RECORDED | _FREE)
    for name in given:
        if name not in taken:
            close = get_close_matches(name, taken, 1)
            meant = f"did you mean --trainer.{close[0]}? " if close else ""
            why = _AWAY if name.startswith(("hub_", "trackio_")) else _WHY.get(name)
            why = why or f"{meant}a run takes only {', '.join(taken)}"
            raise InputError(f"--trainer.{name}: {why}")


def check_arguments(given: Mapping[str, Any]) -> None:
    """Refuse an argument that a run does not take, and a value that the Trainer does not.

    A value is tried: the Trainer makes one step with it, on a model of one weight.
    """
    check_names(given)
    for name, value in given.items():
        if isinstance(value, int | float) and not 0 <= value < math.inf:
            raise InputError(f"--trainer.{name} must be a finite number from 0 on, got {value}")
    plain = {name: value for name, value in given.items() if name not in _UNTRIED}
    if not plain or plain in _TRIED:
        return
    try:
        with TemporaryDirectory() as folder:
            _step_once(folder, plain)
    except Exception as error:  # of many kinds, whatever is wrong with a value
        named = ", ".join(f"--trainer.{name} {value}" for name, value in plain.items())
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{named}: the Trainer refuses this ({reason[:300]})") from None
    _TRIED.append(plain)


def _step_once(folder: str, given: Mapping[str, Any]) -> None:
    """Make one step with some arguments; what would report it elsewhere is built, but not told."""
    import torch  # not above: a wrong name is found before anybody waits for these
    from transformers import DefaultFlowCallback, Trainer, TrainingArguments

    class OneWeight(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1, 1))

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": (self.weight * x).sum()}

    fixed = {"max_steps": 1, "save_strategy": "no", "disable_tqdm": True}
    fixed |= {"use_cpu": not torch.accelerator.is_available(), "remove_unused_columns": False}
    arguments = TrainingArguments(folder, **{"report_to": "none", **given, **fixed})
    trainer = Trainer(OneWeight(), arguments, train_dataset=[{"x": torch.ones(1)}] * 9)
    trainer.callback_handler.callbacks = [DefaultFlowCallback()]
    trainer.train()
    if trainer.state.global_step != 1:
        raise ValueError("it makes no steps with it")


def recorded(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a result depends on.

    Example:
        >>> recorded({"weight_decay": 0.1, "logging_steps": 5})
        {'weight_decay': 0.1}
    """
    return {name: given[name] for name in sorted(given) if name not in _FREE}
