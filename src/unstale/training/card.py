"""What the model card that sentence-transformers writes says of a training with `unstale`."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, final

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.model_card import generate_model_card

from unstale.files import atomic_file
from unstale.miners.miner import Freshness
from unstale.settings import Filters, JobSettings

CITATION = """
@inproceedings{monath2024fresh,
    title = {A Fresh Take on Stale Embeddings: Improving Dense Retriever Training with Corrector
        Networks},
    author = {Monath, Nicholas and Grathwohl, Will and Boratko, Michael and Fergus, Rob and
        McCallum, Andrew and Zaheer, Manzil},
    booktitle = {International Conference on Machine Learning},
    year = {2024}
}
"""


@final
@dataclass(frozen=True, eq=False)
class Table:
    """A table of metrics on the card, which takes it for an evaluator's.

    Args:
        description: Its heading.
        name: Of the data.
    """

    description: str
    name: str
    primary_metric: None = None


def card_settings(settings: JobSettings) -> dict[str, Any]:
    """Return the settings that a model card shows: all but those of one machine."""
    return {
        name: value
        for declared in fields(settings)
        if not declared.metadata.get("local")
        for name, value in _flat(declared.name, getattr(settings, declared.name))
        if value is not None
    }


def _flat(name: str, value: object) -> list[tuple[str, object]]:
    """Spread a section, such as the filters, into its own settings."""
    if not isinstance(value, Filters):
        return [(name, value)]
    return [] if value.idle else list(asdict(value).items())


def show_results(model: SentenceTransformer, data: str, metrics: dict[str, float]) -> None:
    """Put a model's metrics on its card."""
    _put(model, Table("Retrieval, by unstale", data), metrics)


def show_freshness(model: SentenceTransformer, data: str, readings: list[Freshness]) -> None:
    """Put the last reading of the meter on a model's card; nothing if there is none."""
    if readings:
        last = {k.removeprefix("freshness/"): v for k, v in readings[-1].logs().items()}
        table = Table(f"Freshness of the negatives at step {readings[-1].step}", data)
        _put(model, table, last)


def write_card(
    folder: Path,
    model: SentenceTransformer,
    data: str,
    metrics: dict[str, float],
    readings: list[Freshness],
    logs: list[dict[str, Any]],
) -> None:
    """Write the card of a saved model again, now that it has been measured."""
    # The library keeps what this process logged; a resumed run has been trained before.
    model.model_card_data.training_logs = [
        {"Epoch": log["epoch"], "Step": log["step"], "Training Loss": log["loss"]}
        for log in logs
        if "loss" in log
    ]
    show_results(model, data, metrics)
    show_freshness(model, data, readings)
    with atomic_file(folder / "README.md") as file:
        file.write_text(generate_model_card(model), "utf-8")


def _put(model: SentenceTransformer, table: Table, metrics: dict[str, float]) -> None:
    shown: dict[Any, Any] = model.model_card_data.eval_results_dict or {}
    for old in [t for t in shown if isinstance(t, Table) and t.description == table.description]:
        del shown[old]
    model.model_card_data.set_evaluation_metrics(table, metrics)  # type: ignore[arg-type]
