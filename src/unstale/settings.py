"""The settings that jobs share, by section: each has its name, type, default and sentence here.

A job's settings are one frozen dataclass made of these sections (`TrainSettings`, `RagSettings`).
The command line, YAML files, Python, reports and model cards all read the same fields; the flag of
`batch_size` is `--batch-size`, and its help is the sentence below.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from unstale.declare import MOST_SEED, setting
from unstale.filters import Filters

FEWEST_HELD = 1024  # targets that staged embeds and mines from, at least
MINE_FROM = 0.5  # the share of a staged run before it mines, if it does
HIDDEN = 768  # units of a corrector, unless its strategy or the user says otherwise
LossName = Literal["ce", "mse", "distance"]
Sampling = Literal["top-k", "gumbel"]
SearchMode = Literal["auto", "exact", "rolling", "ivf"]
Precision = Literal["float32", "float16", "int8"]


@dataclass(frozen=True)
class RunSettings:
    """Training: what to train and for how long.

    Args:
        strategy: How hard negatives are chosen.
        steps: Number of optimizer steps. Default: from the size of the data, see --epochs.
        batch_size: Queries in one step, over all processes. Default: 256 for static embeddings with
            at least 5,000 training pairs, otherwise 64.
        mini_batch_size: Encode this many texts at a time and recompute them in the backward pass
            (GradCache): the same gradients with less memory, for one more forward pass. 0 encodes
            the whole batch at once. A reader's text is a question with one target.
        learning_rate: Learning rate of the encoders. Default: 1e-3 for static embeddings,
            otherwise 2e-5.
        scale: Multiplies the scores before the softmax (the paper's beta, 1/temperature).
            Default: 20 for models that compare by cosine, 1 for dot products.
        seed: Random seed for data order, corrector initialisation and sampling.
        trainer: Further arguments of the underlying Trainer, e.g. `--trainer.weight_decay 0.01`.
            They replace the ones that unstale sets.
    """

    strategy: str = "staged"
    steps: int = setting(0, least=0)
    batch_size: int | None = setting(None, least=1)
    mini_batch_size: int = setting(0, least=0)
    learning_rate: float | None = setting(None, least=0)
    scale: float | None = setting(None, above=0)
    seed: int = setting(0, least=0, most=MOST_SEED)
    trainer: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LengthSettings:
    """Training: its length.

    Args:
        epochs: Length in passes over the training pairs, instead of --steps. Default: 5, but at
            least 100 steps and at most 2,000.
    """

    epochs: float | None = setting(None, above=0)


@dataclass(frozen=True)
class NegativeSettings:
    """Negatives: how many of each kind a query gets.

    Args:
        hard_negatives: Negatives mined for each query. staged mines for only a quarter of the
            queries in a batch. All queries of the batch share them. The paper uses 64. Default: 4.
        uniform_negatives: Targets drawn uniformly for each query. The paper uses 64. Default: 0 for
            staged, otherwise 1.
        given_negatives: Targets drawn for each query, anew at every step, from the hard negatives
            that the dataset provides. Default: 0 for `unstale train`; in a script, the largest
            number of negatives on one row.
        share_candidates: Let every query of the batch use the candidates of all queries, as in
            the paper's appendix. Otherwise each query uses only its own.
        matryoshka_dims: Also train the first N dimensions as embeddings of their own, e.g.
            [256,128,64].
    """

    hard_negatives: int | None = setting(None, least=0)
    uniform_negatives: int | None = setting(None, least=0)
    given_negatives: int | None = setting(None, least=0)
    share_candidates: bool = True
    matryoshka_dims: Sequence[int] = ()


@dataclass(frozen=True)
class CorrectorSettings:
    """Corrector: the network that maps stale embeddings to fresh ones.

    Args:
        corrector_hidden: Width of the corrector's hidden layer (the paper uses 8192), a list such
            as [512,512] for several layers, or 0 for a linear corrector. Default: 0 for staged,
            otherwise 768.
        corrector_lr: Learning rate of the corrector.
        corrector_weight: Weight of the corrector's loss. The paper uses 10.
        corrector_loss: Loss of the corrector: mse (equation 5 of the paper, squared), ce
            (cross-entropy, equation 6) or distance (equation 5 as printed, not squared).
        memory: Store each target's residual (fresh minus corrected embedding) from the last time
            it was encoded, and add it to its corrected embedding. Disable it to reproduce the
            paper.
        fallback: Mine from the stale embeddings while the freshness meter finds the corrector
            worse than none. Disable it to reproduce the paper.
    """

    corrector_hidden: int | Sequence[int] | None = None
    corrector_lr: float = setting(1e-3, least=0)
    corrector_weight: float = setting(10.0, least=0)
    corrector_loss: LossName = "mse"
    memory: bool = True
    fallback: bool = True

    @property
    def corrector_widths(self) -> tuple[int, ...]:
        """Return the widths of the corrector's hidden layers; 0 stands for none.

        Example:
            >>> CorrectorSettings(corrector_hidden=[512, 512]).corrector_widths
            (512, 512)
        """
        hidden = HIDDEN if self.corrector_hidden is None else self.corrector_hidden
        return tuple(w for w in ([hidden] if isinstance(hidden, int) else hidden) if w)


@dataclass(frozen=True)
class ScheduleSettings:
    """Re-embedding: when a strategy refreshes the cached embeddings.

    Args:
        refreshes: Number of times that the run re-embeds targets, evenly spread. Used by strategies
            with a schedule, such as exhaustive.
        refresh_every: Re-embed every N steps. This overrides --refreshes.
        refresh_schedule: Re-embed on a schedule START-END:EVERY,... as Atlas writes it, e.g.
            0-1000:500,1000-10000:2000. This overrides --refreshes.
    """

    refreshes: int = setting(80, least=0)
    refresh_every: int | None = setting(None, least=1)
    refresh_schedule: str | None = None


@dataclass(frozen=True)
class RefreshSettings:
    """Re-embedding: for the baselines of a training that refresh a part, or when needed.

    Args:
        full_refreshes: Number of times that dynnibal re-embeds the whole corpus. The paper uses 2.
        subset_size: Targets that stochastic and corrected-subset hold. 0 is a twentieth of the
            corpus, or 256 if that is more.
        sample_size: Targets that dynnibal embeds to refit its regression. 0 is a twentieth of the
            corpus, or 256 if that is more.
        rank: Rank of dynnibal's regression.
        rerank_depth: Stale targets that stale-rerank reranks for each query.
        refresh_below: auto-refresh re-embeds the corpus when the freshness meter finds less than
            this share of the true top 10.
        mine_from: staged trains without mined negatives for this share of the run. It then embeds
            targets, once, and adds hard negatives. Default: 0.5, or 1, which mines nothing, with
            fewer than 10,000 targets (with static embeddings: 50,000).
        mine_among: Targets that staged embeds and mines from, drawn from the corpus. 0 is one for
            each training pair of the run (steps times batch size), or all for static embeddings.
    """

    full_refreshes: int = setting(2, least=0)
    subset_size: int = setting(0, least=0)
    sample_size: int = setting(0, least=0)
    rank: int = setting(64, least=1)
    rerank_depth: int = setting(256, least=1)
    refresh_below: float = setting(0.9, above=0, most=1)
    mine_from: float | None = setting(None, least=0, most=1)
    mine_among: int = setting(0, least=0)


@dataclass(frozen=True)
class SearchSettings:
    """Search: how targets are chosen from the cached embeddings.

    Args:
        sampling: Take the top-k targets, or sample from the softmax with Gumbel noise.
        search: How corrected embeddings are searched. exact scores every target. rolling is as
            fast as searching stale embeddings and nearly exact. ivf scans only the most promising
            cells, for millions of targets (needs faiss). auto chooses by the number of operations.
        buffer: Reuse the corpus embedded by `unstale embed` into this folder. Model and corpus
            must be the same. staged uses it only for the metrics before training.
        dtype: Precision of the embedded corpus. Metrics before training are measured with it.
        mapped: Leave the embedded corpus on disk instead of loading it into memory.
    """

    sampling: Sampling = "top-k"
    search: SearchMode = "auto"
    buffer: str | Path | None = setting(None, local=True)
    dtype: Precision = "float32"
    mapped: bool = False


@dataclass(frozen=True)
class EvaluationSettings:
    """Evaluation: metrics, and the freshness meter.

    Args:
        eval_split: Split to evaluate on before and after training. Use dev to choose settings, with
            --no-guard, since the guard chooses weights by it.
            Several are separated by commas; the first is used for curves and comparisons.
        eval_steps: Evaluate every N steps and record the curve, on the split and on a sample of
            the training queries. 0 disables this.
        meter_steps: Read the freshness meter every N steps. Default: a tenth of the run.
        probe_queries: Training queries for which the freshness meter estimates how much of the true
            top 10 the cached embeddings find. Fewer are used if --probe-targets is too low.
        probe_targets: Largest number of targets that the freshness meter encodes at each reading.
            Where it finds less than 60% of the true top 10, it encodes three times as many beside
            them.
    """

    eval_split: str = "test"
    eval_steps: int = setting(0, least=0, changeable=True)
    meter_steps: int | None = setting(None, least=1)
    probe_queries: int = setting(64, least=1)
    probe_targets: int = setting(1536, least=1)


@dataclass(frozen=True)
class HoldoutSettings:
    """Evaluation: on what, where the data has no split for it.

    Args:
        holdout: Share of the training queries to take out of training and evaluate on, if the data
            has no such split. 0 refuses such data.
    """

    holdout: float = setting(0.1, least=0, most=0.5)


@dataclass(frozen=True)
class GuardSettings:
    """Evaluation: which weights are kept.

    Args:
        guard: Save the weights with the best nDCG@10 on dev. It is measured before training, when
            mining begins, during mining and at the last step, which is preferred if it is within
            0.3 points of the best. Without a dev split, half of --holdout is taken out of training
            for it, at most 500 queries. If that would be fewer than 20, the last weights are kept.
    """

    guard: bool = True


@dataclass(frozen=True)
class CheckpointSettings:
    """Checkpoints: what an interrupted run resumes from.

    Args:
        save_steps: Write a checkpoint every N steps. 0 writes none.
        keep_checkpoints: Number of complete checkpoints to keep, the newest ones.
    """

    save_steps: int = setting(0, least=0, changeable=True, local=True)
    keep_checkpoints: int = setting(2, least=1, changeable=True, local=True)


@dataclass(frozen=True)
class MiningSettings(SearchSettings, ScheduleSettings, CorrectorSettings, RunSettings):
    """What a strategy of either algorithm may read to build its miner."""


@dataclass(frozen=True)
class JobSettings(CheckpointSettings, EvaluationSettings, MiningSettings):
    """What Algorithms 1 and 2 have in common."""


@dataclass(frozen=True)
class FilterSettings:
    """False negatives: which mined targets are left out.

    Args:
        filters: Rules that drop mined targets by score and by rank.
        cross_encoder: Drop targets that this cross-encoder scores above the positive. Give the
            folder or hub name of a sentence-transformers cross-encoder.
    """

    filters: Filters = field(default_factory=Filters)
    cross_encoder: str | None = None


@dataclass(frozen=True)
class TrainSections(
    LengthSettings,
    GuardSettings,
    HoldoutSettings,
    FilterSettings,
    NegativeSettings,
    RefreshSettings,
    JobSettings,
):
    """Every section of a training run; `TrainSettings` adds what checks them."""
