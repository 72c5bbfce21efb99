"""What the model card that sentence-transformers writes says of a training with `unstale`."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, final

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.model_card import generate_model_card

from unstale.files import atomic_file
from unstale.filters import Filters
from unstale.miners.miner import Freshness
from unstale.miners.strategy import strategies
from unstale.training.settings import Checked

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
class CardTable:
    """A table of metrics on the card, which takes it for an evaluator's."""

    description: str
    name: str
    primary_metric: None = None


def card_settings(checked: Checked[Any], left_out: Collection[str] = ()) -> dict[str, Any]:
    """Return the settings that a model card shows: those that the run used, with their values."""
    settings = checked.settings
    others = {name for strategy in strategies().values() for name in strategy.reads}
    unused = others - set(checked.strategy.reads) | set(left_out)
    shown: dict[str, Any] = {}
    for declared in fields(settings):
        value = getattr(settings, declared.name)
        if isinstance(value, Filters):
            shown |= {} if value.idle else asdict(value)
        elif not declared.metadata.get("local"):
            shown[declared.name] = value
    shown |= {f"{kind}_negatives": count for kind, count in checked.counts._asdict().items()}
    shown |= {"batch_size": checked.batch_size, "learning_rate": checked.learning_rate}
    shown |= {"scale": checked.scale}
    return {name: v for name, v in shown.items() if name not in unused and v is not None}


def show_freshness(model: SentenceTransformer, data: str, readings: list[Freshness]) -> None:
    """Put the last reading of the meter on a model's card; nothing if there is none."""
    if readings:
        last = {k.removeprefix("freshness/"): v for k, v in readings[-1].logs().items()}
        table = CardTable(f"Freshness of the negatives at step {readings[-1].step}", data)
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
    _put(model, CardTable("Retrieval, by unstale", data), metrics)
    show_freshness(model, data, readings)
    with atomic_file(folder / "README.md") as file:
        file.write_text(generate_model_card(model), "utf-8")


def _put(model: SentenceTransformer, table: CardTable, metrics: dict[str, float]) -> None:
    shown: dict[Any, Any] = model.model_card_data.eval_results_dict or {}
    for old in [
        t for t in shown if isinstance(t, CardTable) and t.description == table.description
    ]:
        del shown[old]
    model.model_card_data.set_evaluation_metrics(table, metrics)  # type: ignore[arg-type]
