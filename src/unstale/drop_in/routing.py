"""Which prompt and which tower each column of a stock trainer's sets gets."""

from typing import Any

from sentence_transformers import SentenceTransformerTrainer

from unstale.encoders.embed import Task, prompt_of
from unstale.errors import InputError


def route(trainer: SentenceTransformerTrainer, training: dict[str, Task]) -> None:
    """Give texts the prompt and the tower that `encode_query` and `encode_document` give."""
    collator: Any = trainer.data_collator
    mapping, prompts = dict(collator.router_mapping or {}), collator.prompts or {}
    tasks = _evaluation_tasks(trainer) | training
    for column, task in tasks.items():
        prompt = prompt_of(trainer.model, task)
        asked = prompts if isinstance(prompts, str) else prompts.get(column, prompt)
        if asked != prompt:
            rule = "mined targets have the model's prompts: set them all there"
            raise InputError(f"args.prompts gives {column!r} the prompt {asked!r}; {rule}")
        if mapping.setdefault(column, task) != task:
            raise InputError(f"router_mapping sends {column!r} to {mapping[column]!r}")
    collator.router_mapping = mapping
    if not isinstance(prompts, str):
        own = {column: prompt_of(trainer.model, task) for column, task in tasks.items()}
        collator.prompts = prompts | {column: prompt for column, prompt in own.items() if prompt}


def _evaluation_tasks(trainer: SentenceTransformerTrainer) -> dict[str, Task]:
    """Tell how an evaluation set's texts are encoded: the first column asks."""
    given: Any = trainer.eval_dataset
    tasks: dict[str, Task] = {}
    for part in given.values() if isinstance(given, dict) else [given]:
        names = getattr(part, "column_names", None) or []
        texts = [n for n in names if n not in trainer.data_collator.valid_label_columns]
        tasks |= dict.fromkeys(texts[1:], "document") | dict.fromkeys(texts[:1], "query")
    return tasks
