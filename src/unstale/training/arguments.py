"""Which arguments of transformers' Trainer may a run be given, and why not the others?"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
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
    "dataloader_num_workers dataloader_persistent_workers dataloader_pin_memory "
    "dataloader_prefetch_factor ddp_timeout disable_tqdm log_level log_level_replica "
    "logging_first_step logging_steps logging_strategy project report_to run_name "
    "skip_memory_metrics torch_empty_cache_steps".split()
)
_INEXACT = "a resumed run would not end as an uninterrupted one"
_AWAY = "unstale sends nothing away; push the finished model yourself"
_OWN = "unstale averages gradients between processes itself"
_WHY = {
    "auto_find_batch_size": "use --batch-size",
    "data_seed": "use --seed",
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
    """Refuse an argument that a run does not take, and a value that the Trainer does not."""
    import torch  # not above: a wrong name is found before anybody waits for these
    from transformers import TrainingArguments

    check_names(given)
    plain = {name: value for name, value in given.items() if name not in ("bf16", "fp16", "tf32")}
    try:
        cpu = not torch.accelerator.is_available()
        TrainingArguments("unused", **{"report_to": "none", **plain, "use_cpu": cpu})
    except Exception as error:  # of many kinds, whatever is wrong with a value
        reason = " ".join(str(error).split())
        raise InputError(f"--trainer: the Trainer refuses this ({reason[:300]})") from None


def recorded(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a result depends on.

    Example:
        >>> recorded({"weight_decay": 0.1, "logging_steps": 5})
        {'weight_decay': 0.1}
    """
    return {name: given[name] for name in sorted(given) if name not in _FREE}
