"""Every setting of a migration: its name, type, default and meaning, and which cannot be meant."""

import logging
import sys
from dataclasses import dataclass
from typing import Literal

from unstale.declare import check_bounds, setting
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
TargetSampling = Literal["uniform", "queries"]
Method = Literal["auto", "mlp", "linear", "procrustes"]
FitLoss = Literal["mse", "ce"]
FRACTION = 0.05  # of the targets, unless the settings say how many
LEAST_HELD_OUT = 20


@dataclass(frozen=True)
class MigrateSettings:
    """How to migrate.

    Args:
        fraction: Part of the targets to embed with the new encoder, a fifth of it held out;
            default: 0.05.
        count: The same as a number of targets.
        seconds: The same as a time to spend on embedding.
        sampling: Draw the sample uniformly, or half of it from the neighbourhoods of queries that
            do not validate (queries). Held-out targets are always uniform.
        re_embed: Embed the targets, too, that queries which do not validate find most often and
            highest, and correct the rest: a part of all targets if below 1, otherwise a number.
        method: mlp, a residual network around the least-squares map; linear, that map alone;
            procrustes, the best rotation; auto, the network where it helps unseen targets.
        corrector_hidden: Width of the network's hidden layer.
        loss: mse, or ce with queries that do not validate (plus mse).
        scale: The paper's beta, for ce.
        keep_fresh: Write the fresh vectors of the sampled targets, not their corrected ones.
        k: How many neighbours the overlap is about.
        split: The split whose queries validate; by default test, or whichever there is.
        queries: The most queries to validate on, and to fit to or choose by.
        seed: The seed of the sample and of the network.
    """

    fraction: float | None = setting(None, above=0, most=1)
    count: int | None = None
    seconds: float | None = setting(None, above=0)
    sampling: TargetSampling = "uniform"
    re_embed: float = 0.0
    method: Method = "auto"
    corrector_hidden: int = setting(1536, least=1)
    loss: FitLoss = "mse"
    scale: float = setting(20.0, above=0, most=sys.float_info.max)
    keep_fresh: bool = True
    k: int = 10
    split: str | None = None
    queries: int = setting(500, least=1)
    seed: int = 0

    @property
    def guided_by(self) -> str | None:
        """Name the setting that needs queries beyond those that validate, if there is one."""
        if self.sampling == "queries":
            return "--sampling queries"
        if self.re_embed:
            return "--re-embed"
        return "--loss ce" if self.loss == "ce" else None

    def sizes(self, rows: int, dim: int, *, run: bool = False) -> tuple[int | None, int]:
        """Return how many targets to sample, and how many to embed beyond them.

        The first is None if a time to spend is given. What cannot be meant, alone or together, is
        refused here, before anything is loaded or written.

        Args:
            rows: The number of targets.
            dim: The width of the old vectors.
            run: The corrector comes from a training run, so that nothing is fitted.

        Example:
            >>> MigrateSettings(fraction=0.05, re_embed=0.01).sizes(rows=10_000, dim=384)
            (500, 100)
        """
        check_bounds(self)
        self._check_together(run=run)
        if not 1 <= self.k < rows:
            rule = f"from 1 to {rows - 1}, fewer than the targets"
            raise InputError(f"--k must be {rule}, got {self.k}")
        if 10 * self.k > rows:
            chance = f"{self.k / rows:.2f} by chance alone"
            _LOG.warning("--k %d: any index of %d targets finds %s", self.k, rows, chance)
        size = None
        if self.seconds is None:
            fraction = FRACTION if self.fraction is None else self.fraction
            size = round(fraction * rows) if self.count is None else self.count
            check_size(size, rows, dim)
        return size, self._re_embedded(rows, size)

    def _check_together(self, *, run: bool) -> None:
        given = {"fraction": self.fraction, "count": self.count, "seconds": self.seconds}
        flags = [f"--{name} {value}" for name, value in given.items() if value is not None]
        if len(flags) > 1:
            raise InputError(f"say how much to embed by one flag, not by {' and '.join(flags)}")
        if run and self.method != "auto":
            raise InputError(f"--method {self.method}: with --run nothing is fitted")
        if self.loss == "ce" and (run or self.method in ("linear", "procrustes")):
            other = "--run" if run else f"--method {self.method}"
            raise InputError(f"--loss ce is for a network, {other} trains none")
        if run and self.sampling != "uniform":
            raise InputError(f"--sampling {self.sampling}: with --run the sample only validates")
        if self.re_embed and (run or not self.keep_fresh):
            other = "--run" if run else "--no-keep-fresh"
            rule = "puts fresh vectors beside corrected ones"
            raise InputError(f"--re-embed {rule}, {other} does not")

    def _re_embedded(self, rows: int, size: int | None) -> int:
        many = self.re_embed
        if not 0 <= many <= rows or (many >= 1 and many != int(many)):
            rule = f"a part of the targets below 1 or a number up to {rows}"
            raise InputError(f"--re-embed must be {rule}, got {many}")
        wanted = round(many * rows) if many < 1 else int(many)
        if many and not wanted:
            raise InputError(f"--re-embed {many}: that part of {rows} targets is not one of them")
        if size is not None and size + wanted > rows:
            rule = f"a sample of {size} and {wanted} more"
            raise InputError(f"--re-embed: {rows} targets cannot make {rule}")
        return wanted


def check_size(size: int, rows: int, dim: int) -> int:
    """Return the size of a sample, or say why it cannot be.

    A tenth of the width, and 40 pairs, is the least that a regularised linear map can be fitted to
    with any use; at least 20 more are held out.
    """
    least = max(40, dim // 10) + LEAST_HELD_OUT
    if size < least:
        rule = f"vectors of width {dim} need at least {least}"
        raise InputError(f"a sample of {size} of {rows} targets is too small: {rule}")
    if size > rows:
        raise InputError(f"cannot sample {size} of {rows} targets")
    return size
