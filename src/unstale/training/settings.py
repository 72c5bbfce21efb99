"""`TrainSettings`: everything that a training run can be set to, and what makes no sense."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Generic, TypeVar, final

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from unstale.alone import (
    check_alone,
    check_given_negatives,
    check_sizes,
    check_towers,
    negative_counts,
)
from unstale.bfloat16 import ensure_bfloat16
from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.fingerprint import Fingerprint, fingerprint
from unstale.data.dataset import RetrievalDataset
from unstale.declare import flag
from unstale.distributed import world
from unstale.encoders.cross import CrossScores
from unstale.encoders.embed import dimension, is_cosine, is_static
from unstale.encoders.load import tower_modules
from unstale.errors import InputError
from unstale.evaluation.evaluator import splits_to_measure
from unstale.miners.strategy import Strategy, find_strategy
from unstale.settings import FEWEST_HELD, MINE_FROM, JobSettings, MiningSettings, TrainSections
from unstale.strategies import NegativeCounts
from unstale.training.arguments import check_arguments
from unstale.training.objectives import nested_dims

J = TypeVar("J", bound=JobSettings)
_EPOCHS, _FEWEST, _MOST = 5.0, 100, 2000  # the length of a run that nothing is said about, in steps
# Targets from which mining pays, and those from which it does with static embeddings.
_LARGE, _LARGE_FOR_STATIC = 10_000, 50_000
_MANY = 5000  # pairs from which static embeddings have large batches


@dataclass(frozen=True)
class TrainSettings(TrainSections):
    """The settings of a training run, in sections; see `unstale.settings` for each.

    Example:
        >>> TrainSettings(steps=1000, corrector_hidden=1536).strategy
        'staged'
    """

    def check(
        self,
        dataset: RetrievalDataset,
        model: SentenceTransformer,
        known: "Checked[TrainSettings] | None" = None,
    ) -> "Checked[TrainSettings]":
        """Refuse what cannot work on this data with this model, before any long work.

        What was found out of the same data and model for other settings is taken from `known`.
        """
        strategy = find_strategy(self.strategy)
        train, targets = dataset.split("train"), len(dataset.targets)
        splits_to_measure(dataset, self.eval_split)
        batch_size = self.batch_size or default_batch(model, len(train.pairs))
        check_mining(self, strategy, model, batch_size)
        check_towers(strategy, shared=_shares_towers(model))
        settings, skips = _filled_in(self, strategy, model, len(train.pairs), targets, batch_size)
        counts = negative_counts(self, strategy)
        check_sizes(counts, targets, batch_size, len(train.pairs))
        given = self.given_negatives or 0
        if given:
            check_given_negatives(given, len(train.negatives), dataset.name)
        nested_dims(self.matryoshka_dims, dimension(model))
        most = int(np.bincount(train.pairs[:, 0]).max(initial=0))  # positives of one query
        if strategy.cache == "later" and settings.mine_among < min(targets, counts.hard + most):
            need = f"{counts.hard} negatives of a query with {most} positives"
            raise InputError(f"--mine-among {settings.mine_among} is too small to mine {need}")
        made_by = known.made_by if known else fingerprint(model, dataset.targets)
        check_buffer(self, made_by)
        cross_encoder = known.cross_encoder if known else None
        if self.cross_encoder is not None and cross_encoder is None:
            device = str(model.device)
            cross_encoder = CrossScores(self.cross_encoder, dataset, device=device)
        return Checked(
            settings=settings,
            strategy=strategy,
            counts=counts,
            batch_size=batch_size,
            learning_rate=chosen_rate(self, model),
            scale=self.scale or (20.0 if is_cosine(model) else 1.0),
            made_by=made_by,
            cross_encoder=cross_encoder,
            skips_mining=skips,
        )


@final
@dataclass(frozen=True)
class Checked(Generic[J]):
    """Settings that can work, with what follows from the data and the model."""

    settings: J
    strategy: Strategy
    counts: NegativeCounts  # for each query; in Algorithm 2, `hard` targets are retrieved
    batch_size: int  # over all processes
    learning_rate: float  # of the encoders
    scale: float  # the paper's beta, or where it begins
    made_by: Fingerprint  # of the model and the corpus: a buffer must have the same
    cross_encoder: CrossScores | None = None  # filters false negatives
    skips_mining: str = ""  # why a strategy that could mine does not, if so


def _filled_in(
    settings: TrainSettings,
    strategy: Strategy,
    model: SentenceTransformer,
    pairs: int,
    targets: int,
    batch_size: int,
) -> tuple[TrainSettings, str]:
    """Fill in what follows from the data and the model, and say why nothing is mined, if so."""
    taken = batch_size * settings.trainer.get("gradient_accumulation_steps", 1)  # pairs a step
    steps, hidden = planned_steps(settings, pairs, taken), settings.corrector_hidden
    mine_from, held, skips = settings.mine_from, settings.mine_among, ""
    if mine_from is None:
        static = is_static(model)
        mine_from = usual_start(targets, static=static)
        if strategy.cache == "later" and mine_from == 1:
            kind = " with static embeddings" if static else ""
            skips = f"{strategy.name} mines no hard negatives{kind} among fewer than "
            skips += f"{_worth_mining(static):,} targets (here {targets:,}), where more steps help "
            skips += f"more; --mine-from {MINE_FROM} enables mining"
    if strategy.cache == "later":
        held = held_targets(settings, model, targets, steps * taken)
    if hidden is None:
        hidden = strategy.corrector_hidden
    filled = replace(settings, steps=steps, corrector_hidden=hidden, mine_from=mine_from)
    return replace(filled, mine_among=held), skips


def usual_start(targets: int, *, static: bool) -> float:
    """Choose when to mine: never where more in-batch steps are worth more."""
    return 1.0 if targets < _worth_mining(static) else MINE_FROM


def _worth_mining(static: bool) -> int:
    return _LARGE_FOR_STATIC if static else _LARGE


def usually_held(targets: int, pairs: int, *, static: bool) -> int:
    """Choose how many targets to embed on the way: all, unless that cost more than it gains.

    A pair of the training takes at least six forward passes (two texts, and the backward pass is
    twice a forward one), so a target for each pair takes at most a seventh of the time. Static
    embeddings take next to none.

    Args:
        pairs: The pairs that the run trains on, each as often as it does.
    """
    return targets if static else min(targets, max(FEWEST_HELD, pairs))


def held_targets(
    settings: TrainSettings, model: SentenceTransformer, targets: int, pairs: int
) -> int:
    """Return how many targets to embed on the way, for a run on so many pairs."""
    asked = settings.mine_among
    if settings.cross_encoder is not None or not settings.filters.idle:
        if 0 < asked < targets:
            rule = "filters of false negatives compare with positives, which must be embedded too"
            raise InputError(f"--mine-among {asked}: {rule}; leave it out")
        return targets
    return min(targets, asked or usually_held(targets, pairs, static=is_static(model)))


def planned_steps(settings: TrainSections, pairs: int, taken: int) -> int:
    """Return the steps of a run: as given, of the epochs given, or by the size of the data.

    Each step takes `taken` of the pairs.

    Example:
        >>> planned_steps(TrainSettings(epochs=2.0), pairs=3000, taken=64)
        94
        >>> [planned_steps(TrainSettings(), n, 64) for n in (500, 3000, 100_000)]
        [100, 235, 2000]
    """
    if settings.steps:
        return settings.steps
    steps = math.ceil((settings.epochs or _EPOCHS) * pairs / taken)
    return steps if settings.epochs else min(max(steps, _FEWEST), _MOST)


def check_mining(
    settings: MiningSettings, strategy: Strategy, model: SentenceTransformer, batch_size: int
) -> None:
    """Refuse what no algorithm could train with, whatever the data."""
    check_alone(settings, strategy, world())
    check_arguments(settings.trainer)
    if settings.trainer.get("bf16") and model.device.type == "cpu":
        ensure_bfloat16()
    if world() == 1 and model.device.type == "cuda" and torch.cuda.device_count() > 1:
        rule = "set CUDA_VISIBLE_DEVICES to one of them, or start a process for each with torchrun"
        raise InputError(f"one process would use only one of the devices: {rule}")
    if batch_size % world():
        raise InputError(f"a batch of {batch_size} cannot be shared by {world()} processes")
    free = settings.corrector_loss == "ce" and not is_cosine(model)
    if strategy.corrects and settings.memory and free:
        rule = "cross-entropy lets all embeddings of a dot-product model shift together"
        raise InputError(f"{rule}, so residuals cannot be kept: use --no-memory, or another loss")


def check_buffer(settings: MiningSettings, made_by: Fingerprint) -> None:
    """Refuse a buffer that another encoder or corpus made."""
    if settings.buffer is not None:
        TargetBuffer.open_checked(Path(settings.buffer), made_by)


def without_effect(
    settings: MiningSettings, chosen: Mapping[str, Strategy], known: Mapping[str, Strategy]
) -> list[str]:
    """Say which settings none of the chosen strategies reads, though they were changed."""
    read = {name for strategy in chosen.values() for name in strategy.reads}
    usual, said = vars(TrainSections()), []
    for declared in fields(settings):
        name, value = declared.name, getattr(settings, declared.name)
        readers = [own for own, strategy in known.items() if name in strategy.reads]
        # A comparison has the defaults of a training, with a reader too.
        unchanged = value == declared.default or value == usual.get(name, value)
        if readers and name not in read and not unchanged:
            who = f"it is read by {', '.join(readers)}"
            said.append(f"{flag(name)} has no effect with {' and '.join(chosen)}; {who}")
    return said


def chosen_rate(settings: MiningSettings, model: SentenceTransformer) -> float:
    """Return the encoders' learning rate: static embeddings bear, and need, a far greater one."""
    if settings.learning_rate is not None:  # it may be 0, which trains the corrector alone
        return settings.learning_rate
    return 1e-3 if is_static(model) else 2e-5


def default_batch(model: SentenceTransformer, pairs: int) -> int:
    """Choose the queries a step: static embeddings cost next to nothing, and negatives help.

    A few hundred pairs in batches of 256 would be dozens of epochs in the fewest steps.
    """
    usual = 256 if is_static(model) and pairs >= _MANY else 64
    return max(world(), min(usual, pairs) // world() * world())


def _shares_towers(model: SentenceTransformer) -> bool:
    query = {id(p) for p in tower_modules(model, "query").parameters()}
    return any(id(p) in query for p in tower_modules(model, "document").parameters())
