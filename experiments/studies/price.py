"""What will a grid cost? The targets that each variant encodes, counted before any training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from unstale.miners.strategy import Materials
from unstale.report.numbers import duration
from unstale.schedule import Schedule
from unstale.training.settings import Checked, TrainSettings

_TRAINED = 3  # a forward pass with gradients costs as much as three without


@final
@dataclass(frozen=True)
class Encoded:
    """How many targets a training encodes, at most."""

    trained: int  # with gradients
    reembedded: int
    sampled: int
    measured: int  # to evaluate

    @property
    def forwards(self) -> int:
        """Return how many targets without gradients would cost the same."""
        return _TRAINED * self.trained + self.reembedded + self.sampled + self.measured


def encoded(checked: Checked[TrainSettings], targets: int) -> Encoded:
    """Count what a training encodes; candidates that two queries share are counted twice."""
    settings, counts = checked.settings, checked.counts
    built = Materials(settings, targets, baseline=settings)
    times = built.schedule.count(settings.steps)
    fulls = Schedule.inside(settings.full_refreshes, settings.steps)
    readings = settings.steps // (settings.meter_steps or max(1, settings.steps // 10))
    refits = sum(
        built.schedule.due(step) and not fulls.due(step) for step in range(1, settings.steps + 1)
    )
    reembedded = {
        "exhaustive": times * targets,
        "two-round": targets,
        "stochastic": times * built.subset_size,
        "dynnibal": settings.full_refreshes * targets,
        "auto-refresh": readings * targets,
    }
    sampled = {"dynnibal": refits * (settings.sample_size or built.twentieth)}
    points = 1 + (settings.steps // settings.eval_steps if settings.eval_steps else 0)
    return Encoded(
        trained=settings.steps * checked.batch_size * (1 + counts.hard + counts.uniform),
        reembedded=reembedded.get(settings.strategy, 0),
        sampled=sampled.get(settings.strategy, 0),
        measured=points * targets,
    )


def price_text(
    variants: Mapping[str, Encoded], seeds: int, targets: int, embedding: float | None
) -> str:
    """Say what the cells encode; with the seconds of embedding the corpus, about how long.

    The time is that of encoding alone. Search, and the optimizer of a static encoder, come on top.

    Example:
        >>> print(price_text({"stale": Encoded(600, 0, 0, 100)}, 3, 100, 2.0))
        1 variants x 3 seeds: 3 cells, encoding takes about 1 min 54 s in all
          stale: 600 targets trained, 0 re-embedded, 0 sampled, 100 measured: 38 s a cell
    """
    pace = None if embedding is None else embedding / targets
    lines, whole = [], 0.0
    for label, count in variants.items():
        text = (
            f"  {label}: {count.trained:,} targets trained, {count.reembedded:,} re-embedded, "
            f"{count.sampled:,} sampled, {count.measured:,} measured"
        )
        if pace is not None:
            whole += pace * count.forwards
            text += f": {duration(pace * count.forwards)} a cell"
        lines.append(text)
    head = f"{len(variants)} variants x {seeds} seeds: {len(variants) * seeds} cells"
    if pace is not None:
        head += f", encoding takes about {duration(whole * seeds)} in all"
    return "\n".join([head, *lines])
