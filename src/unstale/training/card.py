"""What the model card that sentence-transformers writes says of a training with `unstale`."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, final

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.model_card import generate_model_card

from unstale.data.dataset import RetrievalDataset
from unstale.files import atomic_file
from unstale.filters import Filters
from unstale.miners.miner import Freshness
from unstale.miners.strategy import strategies
from unstale.training.settings import Checked

_LOOKED_AT = 1000  # training pairs, of which the shortest are examples
_EXAMPLES = 5
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
    """A table of metrics on the card, which takes it for an evaluator's.

    The hub reads the kind of task from the description, and lists all metrics of a table as results
    of the model. `readings` are shown beside them and are no results.
    """

    description: str
    name: str
    primary_metric: str | None = None
    readings: Mapping[str, float] = field(default_factory=dict)

    def get_config_dict(self) -> dict[str, float]:
        """Return what the card shows above the table."""
        return {name: round(value, 4) for name, value in self.readings.items()}


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
        title = f"Freshness of the negatives at step {readings[-1].step}"
        _put(model, CardTable(title, data, readings=last), {})


def show_examples(model: SentenceTransformer, dataset: RetrievalDataset) -> None:
    """Put queries beside their targets on a model's card, for the hub to try; a user's own stay.

    Each query has one of its positives and the positives of two other queries: short ones, for a
    page. Without these the library would pair queries with queries.
    """
    card: Any = model.model_card_data  # whose annotations know no list of sentences
    card.ir_model = True  # shown with encode_query and encode_document, however columns are called
    if card.widget or "train" not in dataset.qrels:
        return
    pairs = dataset.qrels["train"].pairs[:_LOOKED_AT]
    queries = dataset.queries.take(pairs[:, 0])
    targets = dataset.targets.take(pairs[:, 1])
    one_each = dict(zip(queries, targets, strict=True))
    distinct = {target: query for query, target in one_each.items()}
    short = sorted(distinct.items(), key=lambda pair: len(pair[0]) + len(pair[1]))[:_EXAMPLES]
    for i, (target, query) in enumerate(short):
        others = [short[(i + step) % len(short)][0] for step in range(1, min(3, len(short)))]
        card.widget.append({"source_sentence": query, "sentences": [target, *others]})
    if card.widget:
        first = card.widget[0]
        card.usage_examples = [first["source_sentence"], *first["sentences"]]


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
    _put(model, CardTable("Information Retrieval", data, "ndcg@10"), metrics)
    show_freshness(model, data, readings)
    with atomic_file(folder / "README.md") as file:
        file.write_text(generate_model_card(model), "utf-8")


def _put(model: SentenceTransformer, table: CardTable, metrics: dict[str, float]) -> None:
    shown: Any = model.model_card_data.eval_results_dict
    for old in [
        t for t in shown if isinstance(t, CardTable) and t.description == table.description
    ]:
        del shown[old]
    shown[table] = dict(metrics)
