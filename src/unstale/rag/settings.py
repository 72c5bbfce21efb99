"""`RagSettings`: everything that a run of Algorithm 2 can be set to."""

from dataclasses import dataclass, field
from typing import Literal

from unstale.declare import setting
from unstale.errors import InputError
from unstale.filters import WITH_POSITIVE, Filters
from unstale.settings import HoldoutSettings, JobSettings
from unstale.strategies import READER_ONLY

Fusion = Literal["fid", "marginal"]


@dataclass(frozen=True)
class ReaderSettings:
    """Reader: how it uses the retrieved targets.

    Args:
        k: Targets retrieved for each question, in training and when answering. Default: 32 as in
            the paper, or 8 on a CPU.
        start_targets: How many of the k targets, while training, are those that the retriever
            ranked first before it was trained. They stay in view whatever it learns. Default: half
            of them. 0 reproduces the paper.
        fusion: fid lets the decoder see all targets at once, as in the paper's experiments.
            marginal lets each target answer, weighted by the retriever, as Algorithm 2 is written;
            a reader that cannot read yet learns it far sooner.
        reader_lr: Learning rate of the reader. 0 leaves the reader as it is and trains only the
            retriever, in about a third of the time. Default: 3e-3 for `tiny`, otherwise 1e-4.
        dev_questions: Largest number of dev questions by which the best weights of the run are
            chosen. Without a split dev, a tenth of the training questions is held out. 0 keeps the
            last weights, whatever they are.
        patience: Stop early when this many measurements in a row on the dev questions are no
            better than the best. A run makes five. 0 never stops early.
        eval_questions: Largest number of questions to evaluate on, drawn once. 0 is all.
    """

    k: int | None = setting(None, least=1)
    start_targets: int | None = setting(None, least=0)
    fusion: Fusion = "marginal"
    reader_lr: float | None = setting(None, least=0)
    dev_questions: int = setting(256, least=0)
    patience: int = setting(0, least=0)
    eval_questions: int = setting(0, least=0)


@dataclass(frozen=True)
class TargetFilterSettings:
    """Filters: which targets are not retrieved while training; answering has no filters.

    Args:
        filters: Rules that drop retrieved targets by score and by rank. Where too few are left,
            the reader sees fewer.
    """

    filters: Filters = field(default_factory=Filters, metadata={"refused": WITH_POSITIVE})


@dataclass(frozen=True)
class RagSettings(TargetFilterSettings, ReaderSettings, HoldoutSettings, JobSettings):
    """The settings of a run of Algorithm 2; see `unstale.settings` for most of them.

    Args:
        strategy: How targets are retrieved while training.
        steps: Number of optimizer steps.
        batch_size: Questions in one step, over all processes.
        learning_rate: Learning rate of the retriever. Default: 1e-3 for static embeddings,
            otherwise 2e-5.
        eval_split: Split to evaluate on before and after training. If it is dev, the weights are
            chosen by questions that are held out of training instead.
        eval_steps: Evaluate every N steps and record the curve. 0 disables this.
    """

    strategy: str = "corrected"
    steps: int = setting(300, least=1)
    batch_size: int | None = setting(32, least=1)


def check_reading(settings: RagSettings) -> None:
    """Refuse settings of the reader that exclude each other, whatever the data and the models."""
    if settings.k and (settings.start_targets or 0) >= settings.k:
        rule = f"some of the k = {settings.k} targets must come from the retriever as it is"
        raise InputError(f"--start-targets {settings.start_targets}: {rule}")
    if settings.reader_lr == 0 and settings.strategy in READER_ONLY:
        raise InputError(f"--reader-lr 0 with --strategy {settings.strategy} trains nothing")
    if settings.strategy == "none" and not settings.filters.idle:
        raise InputError("--strategy none retrieves no targets, so there is nothing to filter")
    if settings.patience and not settings.dev_questions:
        raise InputError("--patience needs --dev-questions: it stops by what they show")
