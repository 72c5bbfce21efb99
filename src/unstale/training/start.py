"""What a run starts from, fixed at its start so that it goes on from the same."""

from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.sharded import Buffer, load
from unstale.data.dataset import RetrievalDataset
from unstale.distributed import first_alone, world
from unstale.encoders.load import tower_modules
from unstale.errors import InputError
from unstale.files import write_json
from unstale.integrity import digest, read_object
from unstale.machine import free_memory
from unstale.search.auto import Choice, Mode, choose_on_device, log_choice
from unstale.training.strategies import Strategy

SEARCH = "search.json"


def fix_search(
    output: Path,
    mode: Mode,
    buffer: TargetBuffer,
    hidden: tuple[int, ...],
    queries: int,
    device: torch.device,
    *,
    mapped: bool = False,
    memory: bool = False,
) -> Choice:
    """Choose a search once a run; going on, take the one that was chosen.

    What is chosen depends on the memory that is free, and that may change between two starts.
    What the buffer itself and a memory of residuals will take of it does not count as free.
    """
    path = output / SEARCH
    with first_alone():
        if (known := _stored(path, mode)) is not None:
            return log_choice(known)
        if mapped and device.type != "cpu":
            choice = _on_disk(mode, device)
        else:
            held = (0 if mapped else buffer.nbytes) + 4 * len(buffer) * buffer.dim * memory
            targets, taken = len(buffer) // world(), held // world()
            choice = choose_on_device(mode, targets, buffer.dim, hidden, queries, device, taken)
        fixed = {"asked": mode, **choice._asdict()}
        write_json(path, fixed | {"sha256": digest(fixed)})
        return choice


def _on_disk(mode: Mode, device: torch.device) -> Choice:
    """Search a buffer that an accelerator reads from disk: only chunk by chunk."""
    if mode not in ("auto", "exact"):
        rule = f"on {device.type} a buffer on disk is searched exactly"
        raise InputError(f"{rule}: --search {mode} needs one in memory, without --mapped")
    return Choice("exact", "float32", "the buffer is on disk")


def _stored(path: Path, mode: Mode) -> Choice | None:
    if not path.is_file():
        return None
    stored = read_object(path)
    if stored.pop("sha256", None) != digest(stored):
        raise InputError(f"{path} is damaged: its own checksum does not fit")
    return Choice(**stored) if stored.pop("asked") == mode else None


def training_rows(dataset: RetrievalDataset, query: str = "query") -> Dataset:
    """Make the trainer's dataset: a query's text, and `[query row, positive row]` as its label.

    Args:
        dataset: What to train on.
        query: The name of the queries' column.
    """
    pairs = dataset.split("train").pairs
    texts = dataset.queries.take(pairs[:, 0])
    return Dataset.from_dict({query: texts, "label": pairs.tolist()})


def hold(
    buffer: TargetBuffer, device: torch.device, kind: Strategy, *, mapped: bool = False
) -> Buffer:
    """Copy a buffer into memory, unless it is to stay on disk; refuse one that does not fit."""
    if kind.lean or mapped:
        return buffer
    size = buffer.nbytes // world()
    free = free_memory(device)
    if free is not None and size > free:
        rule = f"the buffer takes {size / 1e9:.3g} GB, and {free / 1e9:.3g} are free"
        way = "use more processes" if kind.writes else "--mapped leaves it on disk"
        raise InputError(f"{rule}: {way}")
    return load(buffer, device)


def freeze_targets(model: SentenceTransformer) -> None:
    """Stop training the target tower."""
    for parameter in tower_modules(model, "document").parameters():
        parameter.requires_grad = False


def default_rate(model: SentenceTransformer) -> float:
    """Choose the encoders' learning rate: static embeddings bear, and need, a far greater one."""
    return 1e-3 if _is_static(model) else 2e-5


def default_batch(model: SentenceTransformer, pairs: int) -> int:
    """Choose the queries a step: static embeddings cost next to nothing, and negatives help."""
    usual = 256 if _is_static(model) else 64
    return max(world(), min(usual, pairs) // world() * world())


def _is_static(model: SentenceTransformer) -> bool:
    return any(isinstance(m, StaticEmbedding) for m in model.modules())
