"""What can be set in each study? `unstale experiment` reads it before torch is imported."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

from unstale.declare import changed, parse_seeds, setting
from unstale.migration.settings import Method
from unstale.settings import TrainSections

# The flags of `unstale train` that shape the encoder; the others are settings of the training.
ENCODER_FLAGS = (
    "towers", "layers", "query_prompt", "target_prompt", "query_max_length", "target_max_length",
    "dropout", "device", "trust_remote_code",
)  # fmt: skip
EPOCHS = 1000  # of the synthetic studies: the paper's
GAINS = (0.5, 1.0, 1.5)  # of the drift


@dataclass(frozen=True, kw_only=True)
class GridSettings:
    """The settings of every grid.

    Args:
        data: A dataset in any format that unstale reads.
        model: `tiny`, a model folder, or a hub name.
        seeds: Every variant is trained once for each seed; several are separated by commas.
        steps: The optimizer steps of a training.
        split: The split to measure; a study chooses, so not `test`.
        train: Flags of `unstale train`; what a variant sets wins.
        more: Further variants, each with such flags.
        cells_of: Output folders of other runs of this study, separated by commas. Their finished
            cells are copied instead of trained.
    """

    data: str = "docstrings"
    model: str = "tiny"
    seeds: int | str = "0,1"
    steps: int = setting(300, least=1)
    split: str = "dev"
    train: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cells_of: str = ""

    def __post_init__(self) -> None:
        """Refuse flags that a training does not have, and seeds that cannot be."""
        parse_seeds(self.seeds)
        own = {k: v for k, v in self.train.items() if k not in ENCODER_FLAGS}
        changed(TrainSections(), own, "--train: a training")
        for label, variant in self.more.items():
            changed(TrainSections(), variant, f"--set.more: {label!r}: a training")

    @property
    def others(self) -> list[Path]:
        """Return the folders whose cells are taken over."""
        return [Path(word.strip()) for word in self.cells_of.split(",") if word.strip()]


@final
@dataclass(frozen=True, kw_only=True)
class NumberOfTargetsSettings(GridSettings):
    """The settings of `number-of-targets`: those of a grid, and how many targets.

    Args:
        split: The split to measure; all of its queries are kept at every size.
        sizes: Numbers of targets; 0 stands for the whole corpus.
        pairs: same, train on the same pairs at every size, so that nothing but the number of
            targets differs; all, on every pair whose target a subset holds.
        subset_seed: Random seed of the subsets.
        hard: Hard negatives of each query of `corrected`.
        uniform: Uniform negatives of each query of `corrected`.
        rows: Which rows, separated by semicolons; by default all.
    """

    seeds: int | str = "0,1,2"
    split: str = "test"
    sizes: tuple[int, ...] = (7_500, 30_000, 0)
    pairs: Literal["same", "all"] = "same"
    subset_seed: int = 0
    hard: int = setting(4, least=1)
    uniform: int = setting(1, least=0)
    rows: str = ""


@final
@dataclass(frozen=True, kw_only=True)
class QualityPerSecondSettings(GridSettings):
    """The settings of `quality-per-second`: those of a grid, and what sets the time.

    Args:
        steps: The steps of `corrected`, whose time all others are given.
        seconds: The time of embedding and training instead.
        recipes: Which recipes, separated by semicolons; by default all.
        rounds: How often each recipe is timed, in turn.
        points: How often to measure during a training.
    """

    seconds: float | None = setting(None, above=0)
    recipes: str = ""
    rounds: int = setting(3, least=1)
    points: int = setting(10, least=1)


@final
@dataclass(frozen=True, kw_only=True)
class RecoveredGapSettings(GridSettings):
    """The settings of `recovered-gap`: those of a grid, the mix of negatives, and which rows.

    Args:
        split: The split to measure. The table is made once, with settings chosen on dev.
        hard: Hard negatives of each query, for methods that encode them.
        uniform: Uniform negatives of each query, for the same methods. The paper has as many.
        refreshes: How often exhaustive re-embeds the corpus, and dynnibal refits its regression.
        rows: Which rows, separated by semicolons; by default all.
    """

    seeds: int | str = "0,1,2"
    split: str = "test"
    hard: int = setting(4, least=1)
    uniform: int = setting(1, least=0)
    refreshes: int = setting(80, least=0)
    rows: str = ""


@final
@dataclass(frozen=True, kw_only=True)
class TradeOffSettings(GridSettings):
    """The settings of `trade-off`: those of a grid, and how often corpora are re-embedded.

    Args:
        split: The split to measure. The figure is made once, with settings chosen on dev.
        hard: Hard negatives of each query.
        uniform: Uniform negatives of each query.
        refreshes: How often exhaustive re-embeds the corpus, evenly inside the run; a point each.
            The last number is the upper end of the recovered gap.
        refits: How often dynnibal refits its regression, and stochastic redraws its subset.
        full_refreshes: How often dynnibal re-embeds the corpus; a point each.
        below: Shares of the true top 10 below which auto-refresh re-embeds; a point each.
        rows: Which rows, separated by semicolons; by default all.
    """

    seeds: int | str = "0,1,2"
    split: str = "test"
    hard: int = setting(4, least=1)
    uniform: int = setting(1, least=0)
    refreshes: tuple[int, ...] = (1, 2, 5, 10, 20, 80)
    refits: int = setting(80, least=1)
    full_refreshes: tuple[int, ...] = (0, 1, 2)
    below: tuple[float, ...] = (0.5, 0.7, 0.9)
    rows: str = ""


@final
@dataclass(frozen=True, kw_only=True)
class GeneralizationSettings:
    """The settings of `generalization`.

    Args:
        seed: The seed of worlds, samples, signs and correctors.
        queries: The queries to average over, each a theorem of its own.
        epochs: The number of epochs of every fit.
        signs: The draws of random signs for the Rademacher complexity.
    """

    seed: int = setting(0, least=0)
    queries: int = setting(3, least=1)
    epochs: int = setting(300, least=1)
    signs: int = setting(4, least=1)


@final
@dataclass(frozen=True, kw_only=True)
class MigrationSettings:
    """The settings of `migration`.

    Args:
        data: A dataset with a split `test`.
        old: The encoder of the index that exists.
        new: The encoder to migrate to.
        targets: The size of the random subset of targets.
        queries: The test queries over which the truth is measured.
        asked: How many of them a migration may validate on; as many others may guide it.
        fractions: The parts of the targets to embed.
        resamples: The number of samples of each size.
        method: How to fit; see `unstale correct`.
        re_embed: The part of the targets to embed beyond the sample: those that queries find.
        max_length: Tokens after which both encoders cut a text.
        hidden: The width of the corrector.
        seed: The seed of the first sample.
    """

    data: str
    old: str = "sentence-transformers/all-MiniLM-L6-v2"
    new: str = "sentence-transformers/all-mpnet-base-v2"
    targets: int = setting(10_000, least=1)
    queries: int = setting(1500, least=1)
    asked: int = setting(300, least=1)
    fractions: tuple[float, ...] = setting((0.02, 0.05, 0.1, 0.2), least=0, most=1)
    resamples: int = setting(20, least=1)
    method: Method = "auto"
    re_embed: float = setting(0.0, least=0, most=1)
    max_length: int = setting(128, least=1)
    hidden: int = setting(1536, least=1)
    seed: int = setting(0, least=0)


@final
@dataclass(frozen=True, kw_only=True)
class SmallToLargeSettings:
    """The settings of `small-to-large`.

    Args:
        data: A dataset in any format that unstale reads.
        small: The encoder whose vectors there are.
        large: The encoder to approximate.
        split: Half of its queries train the corrector, half are held out.
        targets: The size of a random subset; by default all.
        queries: Use only the first queries of the split.
        samples: Targets for each training query that are embedded with the large model: half of
            them its nearest by the small model, half uniform.
        max_length: Tokens after which both encoders cut a text.
        hidden: The width of the corrector.
        scale: The paper's beta.
        epochs: The largest number of epochs.
        seed: The seed of samples and corrector.
    """

    data: str
    small: str = "sentence-transformers/all-MiniLM-L6-v2"
    large: str = "sentence-transformers/all-mpnet-base-v2"
    split: str = "test"
    targets: int | None = setting(None, least=1)
    queries: int | None = setting(None, least=1)
    samples: int = setting(32, least=1)
    max_length: int = setting(128, least=1)
    hidden: int = setting(1536, least=1)
    scale: float = setting(20.0, above=0)
    epochs: int = setting(60, least=1)
    seed: int = setting(0, least=0)


@final
@dataclass(frozen=True, kw_only=True)
class SyntheticParametersSettings:
    """The settings of `synthetic-parameters`.

    Args:
        seed: The seed of worlds, samples and correctors.
        fraction: The part of the targets that trains; all are measured.
        epochs: The largest number of epochs.
        gains: The number of variances of the drift.
    """

    seed: int = setting(0, least=0)
    fraction: float = setting(0.25, least=0, most=1)
    epochs: int = setting(EPOCHS, least=1)
    gains: int = setting(3, least=1, most=len(GAINS))


@final
@dataclass(frozen=True, kw_only=True)
class SyntheticSamplesSettings:
    """The settings of `synthetic-samples`.

    Args:
        seed: The seed of worlds, samples and correctors.
        repeats: The number of worlds in a pane; the figure shows their mean.
        epochs: The largest number of epochs.
    """

    seed: int = setting(0, least=0)
    repeats: int = setting(4, least=1)
    epochs: int = setting(EPOCHS, least=1)


@final
@dataclass(frozen=True, kw_only=True)
class ToyCircleSettings:
    """The settings of `toy-circle`.

    Args:
        seed: The seed of the corrector and of the queries.
        epochs: The largest number of epochs.
    """

    seed: int = setting(0, least=0)
    epochs: int = setting(600, least=1)
