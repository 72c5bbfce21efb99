"""Figures of the experiments: matplotlib, asked for only when one is drawn."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unstale.errors import InputError
from unstale.files import atomic_file


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
