"""Every setting of a migration: its name, type, default and meaning, and which cannot be meant."""

import logging
import math
from dataclasses import dataclass
from typing import Literal, get_args

from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
Sampling = Literal["uniform", "coverage", "queries"]
Priority = Literal["retrieved", "worst"]
Method = Literal["auto", "mlp", "linear", "procrustes"]
Loss = Literal["mse", "ce"]
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
        sampling: Draw the sample uniformly; alike from all k-means cells of the old vectors
            (coverage, needs faiss); or half of it from the neighbourhoods of queries that do not
            validate (queries). Held-out targets are always uniform.
        re_embed: Embed the targets that matter most, too, and correct the rest: a part of all
            targets if below 1, otherwise a number.
        re_embed_by: Which those are: retrieved, most often and highest by queries that do not
            validate; worst, those that the corrector predicts least well.
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

    fraction: float | None = None
    count: int | None = None
    seconds: float | None = None
    sampling: Sampling = "uniform"
    re_embed: float = 0.0
    re_embed_by: Priority = "retrieved"
    method: Method = "auto"
    corrector_hidden: int = 1536
    loss: Loss = "mse"
    scale: float = 20.0
    keep_fresh: bool = True
    k: int = 10
    split: str | None = None
    queries: int = 500
    seed: int = 0

    @property
    def guided_by(self) -> str | None:
        """Name the setting that needs queries beyond those that validate, if there is one."""
        if self.sampling == "queries":
            return "--sampling queries"
        if self.re_embed and self.re_embed_by == "retrieved":
            return "--re-embed-by retrieved"
        return "--loss ce" if self.loss == "ce" else None

    def check(self, rows: int, *, run: bool) -> None:
        """Refuse what cannot be meant, alone or together, before anything is loaded or written.

        Args:
            rows: The number of targets.
            run: The corrector comes from a training run, so that nothing is fitted.
        """
        for flag, given, kinds in (
            ("sampling", self.sampling, Sampling),
            ("re-embed-by", self.re_embed_by, Priority),
            ("method", self.method, Method),
            ("loss", self.loss, Loss),
        ):
            if given not in get_args(kinds):
                known = ", ".join(get_args(kinds))
                raise InputError(f"--{flag} must be one of {known}, not {given!r}")
        for flag, value, most in (
            ("k", self.k, rows - 1),
            ("queries", self.queries, None),
            ("corrector-hidden", self.corrector_hidden, None),
        ):
            if value < 1 or value > (most or value):
                rule = f"from 1 to {most}, fewer than the targets" if most else "at least 1"
                raise InputError(f"--{flag} must be {rule}, got {value}")
        if 10 * self.k > rows:
            chance = f"{self.k / rows:.2f} by chance alone"
            _LOG.warning("--k %d: any index of %d targets finds %s", self.k, rows, chance)
        if not 0 < self.scale < math.inf:
            raise InputError(f"--scale must be above 0 and finite, got {self.scale}")
        if run and self.method != "auto":
            raise InputError(f"--method {self.method}: with --run nothing is fitted")
        if self.loss == "ce" and (run or self.method in ("linear", "procrustes")):
            other = "--run" if run else f"--method {self.method}"
            raise InputError(f"--loss ce is for a network, {other} trains none")
        if run and self.sampling != "uniform":
            raise InputError(f"--sampling {self.sampling}: with --run the sample only validates")
        if self.re_embed and (run or not self.keep_fresh):
            flag = "--run" if run else "--no-keep-fresh"
            rule = "puts fresh vectors beside corrected ones"
            raise InputError(f"--re-embed {rule}, {flag} does not")

    def sample_size(self, rows: int, dim: int) -> int | None:
        """Return how many targets to sample, or None if a time to spend is given.

        Example:
            >>> MigrateSettings(fraction=0.05).sample_size(rows=10_000, dim=384)
            500
        """
        given = {"fraction": self.fraction, "count": self.count, "seconds": self.seconds}
        flags = [f"--{flag} {value}" for flag, value in given.items() if value is not None]
        if len(flags) > 1:
            raise InputError(f"say how much to embed by one flag, not by {' and '.join(flags)}")
        if self.seconds is not None:
            if not self.seconds > 0:
                raise InputError(f"--seconds must be above 0, got {self.seconds}")
            return None
        if self.count is not None:
            return check_size(self.count, rows, dim)
        fraction = FRACTION if self.fraction is None else self.fraction
        if not 0 < fraction <= 1:
            raise InputError(f"--fraction must be above 0 and at most 1, got {fraction}")
        return check_size(round(fraction * rows), rows, dim)

    def re_embed_count(self, rows: int, size: int | None) -> int:
        """Return how many targets to embed beyond a sample of some size."""
        many = self.re_embed
        if not 0 <= many <= rows or (many >= 1 and many != int(many)):
            rule = f"a part of the targets below 1 or a number up to {rows}"
            raise InputError(f"--re-embed must be {rule}, got {many}")
        if not many and self.re_embed_by != "retrieved":
            raise InputError(f"--re-embed-by {self.re_embed_by} needs --re-embed: how many")
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
