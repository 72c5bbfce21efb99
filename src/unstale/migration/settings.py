"""Every setting of a migration: its name, type, default and meaning, and which cannot be meant."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unstale.declare import MOST_SEED, check_bounds, setting
from unstale.engine import EngineSettings, check_engine
from unstale.errors import InputError
from unstale.integrity import BUFFER
from unstale.migration.stores.address import KINDS

_LOG = logging.getLogger(__name__)
Method = Literal["auto", "linear"]
Way = Literal["verdict", "query-side", "rewrite"]
FILES = (".npy", ".safetensors", ".parquet", ".faiss", ".index")  # of vectors
FRACTION = 0.05  # of the targets, unless the settings say how many
LEAST_HELD_OUT = 20


@dataclass(frozen=True)
class MigrateSettings(EngineSettings):
    """How to migrate.

    Args:
        fraction: Share of the targets to embed with the new encoder. A fifth of them is held out
            for validation. Default: 0.05.
        count: Number of targets to embed, instead of a share.
        re_embed: Also embed the targets that logged queries find most often: a share of all
            targets if below 1, all that are left if 1, otherwise a number. The queries without
            qrels count as the log, or those of the other splits if all have qrels.
        way: verdict only estimates quality and cost of each way to upgrade. query-side also writes
            an adapter, with which the application searches the old index by both models. rewrite
            writes new vectors of all targets; it is the only way without the old encoder.
        fuse: With rewrite, write vectors of both models end to end: the old one beside the new
            one. Both models then embed each query. The index is larger, and keeps what the old
            one knows.
        price: Price of the new encoder for a million tokens, if it is paid by tokens.
        method: linear uses the least-squares map. auto adds a residual network where it helps
            unseen targets.
        corrector_hidden: Width of the network's hidden layer.
        k: Number of neighbours for the overlap.
        split: Split whose queries validate. Default: test, or another if there is none.
        queries: Largest number of queries to validate on, and to choose targets by.
        seed: Random seed for the sample and the network.
    """

    fraction: float | None = setting(None, above=0, most=1)
    count: int | None = setting(None, least=1)
    re_embed: float = setting(0.0, least=0, changeable=True)
    way: Way = setting("rewrite", changeable=True)
    fuse: bool = setting(False, changeable=True)
    price: float | None = setting(None, least=0, changeable=True)
    method: Method = "auto"
    corrector_hidden: int = setting(1536, least=1)
    k: int = setting(10, least=1)
    split: str | None = None
    queries: int = setting(500, least=1)
    seed: int = setting(0, least=0, most=MOST_SEED)

    def check_alone(self) -> None:
        """Refuse what makes no sense, whatever the vectors are."""
        check_bounds(self)
        check_engine(self.engine)
        if self.fraction is not None and self.count is not None:
            flags = f"--fraction {self.fraction} and --count {self.count}"
            raise InputError(f"say how much to embed by one flag, not by {flags}")
        if self.re_embed >= 1 and self.re_embed != int(self.re_embed):
            rule = "a share of the targets below 1, or a whole number of them"
            raise InputError(f"--re-embed must be {rule}, got {self.re_embed}")

    def check_way(self, *, old_model: bool) -> None:
        """Refuse a way that the old encoder is needed for."""
        if self.fuse and self.way != "rewrite":
            raise InputError(f"--fuse is for --way rewrite, not {self.way}")
        if not old_model and (self.fuse or self.way != "rewrite"):
            rule = "needs --old-model, the encoder that made the old vectors"
            what = "--fuse" if self.fuse else f"--way {self.way}"
            raise InputError(f"{what} {rule}: it embeds queries for the old index")

    def sizes(self, rows: int, dim: int) -> tuple[int, int]:
        """Return how many targets to sample, and how many to embed beyond them.

        What cannot be meant, alone or together, is refused here, before anything is loaded or
        written.

        Args:
            rows: The number of targets.
            dim: The width of the old vectors.

        Example:
            >>> MigrateSettings(fraction=0.05, re_embed=0.01).sizes(rows=10_000, dim=384)
            (500, 100)
        """
        self.check_alone()
        if self.k >= rows:
            rule = f"from 1 to {rows - 1}, fewer than the targets"
            raise InputError(f"--k must be {rule}, got {self.k}")
        if 10 * self.k > rows:
            chance = f"{self.k / rows:.2f} by chance alone"
            _LOG.warning("--k %d: any index of %d targets finds %s", self.k, rows, chance)
        fraction = FRACTION if self.fraction is None else self.fraction
        size = check_size(round(fraction * rows) if self.count is None else self.count, rows, dim)
        many = self.re_embed
        if many > rows:
            raise InputError(f"--re-embed must be at most the {rows} targets, got {many}")
        more = round(many * rows) if many < 1 else rows - size if many == 1 else int(many)
        if many and not more:
            raise InputError(f"--re-embed {many}: that part of {rows} targets is not one of them")
        if size + more > rows:
            rule = f"a sample of {size} and {more} more"
            raise InputError(f"--re-embed: {rows} targets cannot make {rule}")
        return size, more


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


def check_vectors(path: Path) -> None:
    """Refuse a file or folder that no reader of vectors opens, by its name."""
    if path.is_dir() and not (path / BUFFER).exists():
        raise InputError(f"{path} is a folder without {BUFFER}: not an unstale buffer")
    if not path.is_dir() and path.suffix not in FILES:
        known = f"{', '.join(FILES)}, a buffer, or a collection ({', '.join(KINDS)}:PLACE#NAME)"
        raise InputError(f"{path}: unknown format {path.suffix!r}; known: {known}")
    if not path.exists():
        raise InputError(f"no such file: {path}")
