"""What a run starts from: tokens, cached embeddings, search, miner, meter, identity and clock.

`train`, `rag` and fresh negatives in a script all begin here, and resume from the same.
"""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, final

import torch
from datasets import Dataset
from jaxtyping import Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from tqdm import tqdm
from transformers import set_seed

from unstale.buffer.buffer import TargetBuffer, read_manifest
from unstale.buffer.embed import embed_corpus
from unstale.buffer.sharded import Buffer, load, make_room
from unstale.buffer.stored import DTYPES
from unstale.data.dataset import ByQuery, RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.declare import taken_from
from unstale.distributed import check_processes, first_alone, rank, world
from unstale.encoders.embed import dimension, embed_targets, is_cosine
from unstale.encoders.load import hash_weights, tower_modules
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.filters import Filters
from unstale.integrity import digest
from unstale.machine import check_fits
from unstale.miners.exhaustive import embed_all
from unstale.miners.negatives import Negatives, build_negatives
from unstale.miners.strategy import Materials, Strategy
from unstale.search.auto import Choice, choose
from unstale.settings import MiningSettings, Precision, RefreshSettings
from unstale.training.encode import as_trained
from unstale.training.identity import Identity, identity, made_of
from unstale.training.meter import Meter
from unstale.training.record import Stopwatch
from unstale.training.settings import Checked
from unstale.written import keep_list


@final
@dataclass(frozen=True)
class Prepared:
    """The parts of a run before its first step."""

    tokens: TokenStore  # of the targets, by row
    buffer: TargetBuffer | None  # the embedded corpus, for a strategy that caches
    embedded: int  # how many targets this run embedded for it
    search: Choice | None  # how corrected embeddings are searched, if that can be chosen
    negatives: Negatives  # the miner, with its filters and other kinds of negatives
    meter: Meter
    identity: Identity  # what the run is made of: a checkpoint of anything else is refused
    clock: Stopwatch


def prepare(
    model: SentenceTransformer,
    dataset: RetrievalDataset,
    checked: Checked[Any],
    output: Path | None,
    trained: Int[ndarray, "n 2"],
    *,
    filters: Filters = Filters(),
    given: int = 0,
    progress: bool = True,
    **more: str,
) -> Prepared:
    """Embed the corpus, unless the strategy does it later, and build what a step needs.

    Args:
        output: The run folder; without one, embeddings stay in memory.
        trained: (query row, target row) of the training pairs; -1 where no target is known.
        more: Digests of what else the run starts from.
    """
    settings, strategy, clock = checked.settings, checked.strategy, Stopwatch()
    if output is not None and rank() == 0:
        keep_list(output)
    if strategy.freezes_targets:
        tower_modules(model, "document").requires_grad_(False)
    shared = made_of(dataset, hash_weights(model.state_dict()), settings, **more)
    check_processes(shared)
    with first_alone():
        tokens = target_tokens(model, dataset, progress=progress)
    where = Path(settings.buffer) if settings.buffer else output and output / "buffer"
    timed = clock.timed("embedding", _embed)
    later, buffer, embedded, held = strategy.cache == "later", None, 0, None
    if settings.buffer or (strategy.caches and not later):
        buffer, embedded = timed(model, tokens, checked, where, progress)
        held = None if later else _hold(buffer, model.device, strategy, settings)
    if later:  # a buffer that was given is the corpus before training, to measure by
        held = _room(model, settings.mine_among, checked)
    search = _choose_search(checked, len(held), held, model) if held else None
    materials = Materials(
        settings=settings,
        targets=len(dataset.targets),
        buffer=held,
        search=search,
        uniform_negatives=checked.counts.uniform,
        device=model.device,
        unit=is_cosine(model),
        baseline=_baseline(settings, strategy),
    )
    set_seed(settings.seed)  # for the corrector's first weights
    negatives = build_negatives(
        strategy,
        materials,
        checked.counts,
        filters=filters,
        cross_encoder=checked.cross_encoder,
        given=ByQuery(dataset.split("train").negatives, len(dataset.queries)) if given else None,
        given_count=given,
    )
    return Prepared(
        tokens=tokens,
        buffer=buffer,
        embedded=embedded,
        search=search,
        negatives=negatives,
        meter=_meter(dataset, trained, tokens, checked),
        identity=identity(shared, trained, _embedded_as(output, where, buffer, checked), search),
        clock=clock,
    )


def _embedded_as(
    output: Path | None, where: Path | None, buffer: TargetBuffer | None, checked: Checked[Any]
) -> str | None:
    """Describe the embedded corpus that a run starts from."""
    if output is None:  # a script may keep its buffer in a folder, or not
        return digest(checked.made_by)
    return digest(read_manifest(where)["shards"]) if buffer and where else None


def _meter(
    dataset: RetrievalDataset,
    trained: Int[ndarray, "n 2"],
    tokens: TokenStore,
    checked: Checked[Any],
) -> Meter:
    chosen = checked.settings
    probe = {"queries": chosen.probe_queries, "targets": chosen.probe_targets}
    return Meter(dataset, trained, tokens, scale=checked.scale, **probe)


def _baseline(settings: Any, strategy: Strategy) -> RefreshSettings:  # noqa: ANN401 - a job's
    """Take what only strategies of a training read, for one of them."""
    own = {declared.name for declared in fields(RefreshSettings)}
    return taken_from(RefreshSettings, settings) if own & set(strategy.reads) else RefreshSettings()


def _embed(
    model: SentenceTransformer,
    tokens: TokenStore,
    checked: Checked[Any],
    folder: Path | None,
    progress: bool,
) -> tuple[TargetBuffer, int]:
    """Open the buffer that the settings name, or embed the corpus, on disk if there is a folder."""
    settings, made_by, count = checked.settings, checked.made_by, len(tokens)
    if settings.buffer:
        return TargetBuffer.open(Path(settings.buffer), made_by), 0
    precision = as_trained(settings.trainer, model.device)
    if folder is not None:
        with precision:
            buffer, _ = embed_corpus(
                model, tokens, folder, made_by, dtype=settings.dtype, progress=progress
            )
        return buffer, count  # whichever of the processes, or of the sessions, embedded them
    on_disk = checked.strategy.cache == "disk"  # if there were a folder
    device = torch.device("cpu") if on_disk else model.device
    check_fits("the buffer", count * _row_bytes(model, settings.dtype), device, "use dtype='int8'")
    held = TargetBuffer.empty(count, dimension(model), settings.dtype, device)
    bar = tqdm(total=count, desc="embedding", unit="target", disable=not progress)
    with precision, bar:
        embed_all(held, lambda rows: embed_targets(model, tokens, rows.numpy(), progress=bar))
    return held, count


def _row_bytes(model: SentenceTransformer, dtype: Precision) -> int:
    return dimension(model) * DTYPES[dtype].itemsize + 4 * (dtype == "int8")


def _room(model: SentenceTransformer, targets: int, checked: Checked[Any]) -> Buffer:
    """Make room in memory for a corpus that is embedded on the way; refuse what does not fit."""
    dim, dtype = dimension(model), checked.settings.dtype
    # Nothing takes memory before it is written, so all of it is checked at once: the corpus, the
    # copy that a search may make of it, and the residuals.
    row = 2 * _row_bytes(model, dtype) + 4 * dim * checked.settings.memory
    way = "use --dtype int8, --no-memory or more processes, or --strategy corrected --mapped"
    what = "the corpus that staged embeds, with its search and residuals,"
    check_fits(what, targets // world() * row, model.device, way)
    return make_room(targets, dim, dtype, model.device)


def _choose_search(
    checked: Checked[Any], targets: int, buffer: Buffer, model: SentenceTransformer
) -> Choice | None:
    """Choose how to search, for a strategy that can choose.

    What the buffer's place or the free memory rules out is refused.
    """
    if "search" not in checked.strategy.reads:
        return None
    settings, device = checked.settings, model.device
    mode = settings.search
    if settings.mapped and device.type != "cpu":  # an accelerator reads it chunk by chunk
        if mode not in ("auto", "exact"):
            rule = f"on {device.type} a buffer on disk is searched exactly"
            raise InputError(f"{rule}: --search {mode} needs one in memory, without --mapped")
        mode = "exact"
    choice = choose(
        targets,
        buffer.dim,
        settings.corrector_widths,
        math.ceil(checked.strategy.mined_for * checked.batch_size),
        mode=mode,
        precision=buffer.local.precision,
        unit=is_cosine(model),
    )
    if choice.mode != "exact":
        what = f"the copy that --search {choice.mode} makes of the buffer"
        way = "use --search exact or --dtype int8"
        check_fits(what, buffer.local.nbytes, device, way)
    return choice


def _hold(
    buffer: TargetBuffer, device: torch.device, strategy: Strategy, settings: MiningSettings
) -> Buffer:
    """Copy a buffer into memory, unless it is there or can stay on disk; it must fit."""
    if strategy.cache == "disk" or settings.mapped or not buffer.mapped:
        return buffer
    way = "use more processes" if strategy.cache == "rewritten" else "--mapped leaves it on disk"
    check_fits("the buffer", buffer.nbytes // world(), device, way)
    return load(buffer, device)


def training_rows(dataset: RetrievalDataset, query: str = "query") -> Dataset:
    """Make the trainer's dataset: a query's text, and `[query row, positive row]` as its label."""
    pairs = dataset.split("train").pairs
    texts = dataset.queries.take(pairs[:, 0])
    return Dataset.from_dict({query: texts, "label": pairs.tolist()})
