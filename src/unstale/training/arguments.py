"""Which arguments of transformers' Trainer may a run be given, and why not the others?"""

import ast
import math
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path
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
# What a value may be, where the Trainer says no more than its type.
_LEVELS = ("detail", "debug", "info", "warning", "error", "critical", "passive")
_CHOICES = {
    "log_level": _LEVELS,
    "log_level_replica": _LEVELS,
    "torch_compile_mode": (
        "default",
        "reduce-overhead",
        "max-autotune",
        "max-autotune-no-cudagraphs",
    ),
}
_LEAST = {"gradient_accumulation_steps": 1}
_BELOW = {"adam_beta1": 1, "adam_beta2": 1}
_PLAIN: dict[str, Any] = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "str": str,
    "dict": dict,
    "list": list,
}
_SAID = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}
# Where `report_to` has another name than the package.
_PACKAGES = {
    "azure_ml": ("azureml",),
    "flyte": ("flytekit",),
    "tensorboard": ("tensorboard", "tensorboardX"),
}
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


def check_given(given: Mapping[str, Any]) -> None:
    """Refuse a wrong name, and a value of a wrong type or out of bounds; nothing is imported.

    Types and choices are those that the source of the Trainer's arguments declares.
    """
    check_names(given)
    for name, value in given.items():
        _check_type(name, value)
        if isinstance(value, int | float):
            least, below = _LEAST.get(name, 0), _BELOW.get(name, math.inf)
            if not least <= value < below:
                rule = f"from {least} on" if below == math.inf else f"from {least} to below {below}"
                raise InputError(f"--trainer.{name} must be a finite number {rule}, got {value}")
    if given.get("bf16") and given.get("fp16"):
        raise InputError("--trainer.bf16 and --trainer.fp16 exclude each other")
    places = given.get("report_to") or ()
    for place in [places] if isinstance(places, str) else places:
        packages = _PACKAGES.get(place, (place,)) if str(place).isidentifier() else ()
        if place not in ("none", "all") and not any(map(find_spec, packages)):
            rule = "it must be none, all, or an installed package that the Trainer reports to"
            raise InputError(f"--trainer.report_to {place}: {rule}, such as tensorboard or wandb")


def _check_type(name: str, value: Any) -> None:  # noqa: ANN401 - of any type
    kinds = [kind.strip().partition("[")[0] for kind in _declared().get(name, "Any").split("|")]
    choices = _CHOICES.get(name) or [c for kind in kinds for c in _enumerated(kind)]
    if choices and value not in choices:
        known = ", ".join(map(str, choices))
        raise InputError(f"--trainer.{name} must be one of {known}, got {value!r}")
    if value is None or any(kind not in (*_PLAIN, "None") for kind in kinds):
        return
    wanted = [kind for kind in kinds if kind in _PLAIN]
    fits = any(isinstance(value, _PLAIN[kind]) for kind in wanted)
    if not fits or (isinstance(value, bool) and "bool" not in wanted):
        rule = " or ".join(_SAID.get(kind, f"a {kind}") for kind in wanted)
        raise InputError(f"--trainer.{name} must be {rule}, got {value!r}")


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Parse a file of transformers, which takes much longer to import."""
    spec = find_spec("transformers")
    place = next(iter(spec.submodule_search_locations or ()), "") if spec else ""
    path = Path(place, f"{module}.py")
    parsed = ast.parse(path.read_bytes()).body if path.is_file() else []
    return {node.name: node for node in parsed if isinstance(node, ast.ClassDef)}


def _declared() -> dict[str, str]:
    """Return the type of each argument of the Trainer, as its source has it."""
    own = _classes("training_args").get("TrainingArguments")
    fields = (node for node in own.body if isinstance(node, ast.AnnAssign)) if own else ()
    return {ast.unparse(node.target): ast.unparse(node.annotation) for node in fields}


def _enumerated(kind: str) -> Iterator[str]:
    """Return the values of an enumeration of the Trainer; of any other type, none."""
    for module in ("training_args", "trainer_utils"):
        found = _classes(module).get(kind) if kind not in (*_PLAIN, "None", "Any") else None
        for node in found.body if found else ():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                yield str(node.value.value)


def check_arguments(given: Mapping[str, Any]) -> None:
    """Refuse an argument that a run does not take, and a value that the Trainer does not.

    A value is tried: the Trainer makes one step with it, on a model of one weight.
    """
    check_given(given)
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
