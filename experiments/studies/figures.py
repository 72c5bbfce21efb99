"""Figures of the experiments: matplotlib, asked for only when one is drawn."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from unstale.errors import InputError
from unstale.files import atomic_file
from unstale.report.columns import SHOWN
from unstale.report.numbers import spread


def need_matplotlib() -> None:
    """Refuse before the work, not after it, where figures cannot be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'unstale[report]'") from None


@contextmanager
def figure(path: Path, columns: int = 1, size: tuple[float, float] = (5.0, 4.0)) -> Iterator[Any]:
    """Yield the axes of one row of panes; write them as a small PNG at the end."""
    need_matplotlib()
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(size[0] * columns, size[1]), layout="constrained")
    axes = drawn.subplots(1, columns, squeeze=False)[0]
    yield axes[0] if columns == 1 else list(axes)
    with atomic_file(path) as temporary:
        drawn.savefig(temporary, format="png", dpi=110, metadata={"Software": ""})


def dots(axes: Any, rows: Sequence[Mapping[str, Any]], metric: str) -> None:  # noqa: ANN401
    """Draw a metric of a grid's rows: a dot a variant, with its spread over seeds."""
    means, spreads = zip(*(_percent(row, metric) for row in rows), strict=True)
    places = range(len(rows))
    axes.errorbar(means, places, xerr=spreads, fmt="o", capsize=3)
    axes.set_yticks(places, [row["variant"] for row in rows])
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set(xlabel=f"{SHOWN[metric]}, %", ylim=(len(rows) - 0.5, -0.5))


def dot_panes(*metrics: str, height: float) -> Callable[[dict[str, Any], Path], None]:
    """Return what draws a grid of one start: a pane of dots for each metric."""

    def draw(results: dict[str, Any], path: Path) -> None:
        ((_, rows),) = results["tables"].items()
        with figure(path, columns=len(metrics), size=(4.8, height)) as panes:
            for axes, metric in zip(panes, metrics, strict=True):
                dots(axes, rows, metric)

    return draw


def log_ticks(axes: Any, places: Sequence[int], numbers: Sequence[int]) -> None:  # noqa: ANN401
    """Put numbers, and no others, on a logarithmic x axis; add the legend."""
    axes.set(xscale="log")
    axes.set_xticks(places, [str(number) for number in numbers])
    axes.minorticks_off()
    axes.legend(fontsize=8)


def line(
    axes: Any,  # noqa: ANN401
    xs: Sequence[int | float],
    rows: Sequence[Mapping[str, Any]],
    metric: str,
    label: str,
    style: str = "o-",
) -> None:
    """Draw a metric of a grid's rows over a number, with its spread over seeds."""
    means, spreads = zip(*(_percent(row, metric) for row in rows), strict=True)
    axes.errorbar(xs, means, yerr=spreads, fmt=style, capsize=3, label=label)
    axes.set(ylabel=f"{SHOWN[metric]}, %")


def _percent(row: Mapping[str, Any], metric: str) -> tuple[float, float]:
    values = row["metrics"][metric]
    return 100 * fmean(values), 100 * (spread(values) or 0.0)
