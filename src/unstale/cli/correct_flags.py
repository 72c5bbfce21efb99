"""Which flags of `unstale correct` cannot be meant, alone or together?"""

import logging
import math
from dataclasses import replace
from pathlib import Path

from unstale.cli.options_correct import Correct
from unstale.cli.run_folder import run_parts
from unstale.errors import InputError
from unstale.migrate.faiss_source import load_faiss
from unstale.migrate.sample import sample_size
from unstale.migrate.source import Source

_LOG = logging.getLogger(__name__)
FRACTION = 0.05  # of the targets, if nothing is said


def with_run(chosen: Correct) -> Correct:
    """Take what a training run knows: its data, its trained encoder and its stale buffer."""
    if not chosen.run:
        return chosen
    parts = run_parts(chosen.run)
    for flag, own in (("data", parts.data), ("model", parts.model)):
        given = getattr(chosen, flag)
        same = given == own or Path(given).resolve() == Path(own).resolve()
        if not same and given != getattr(Correct, flag):
            raise InputError(f"--run {chosen.run} brings its own --{flag}, {own}, not {given}")
    return replace(
        chosen, data=parts.data, model=parts.model, vectors=chosen.vectors or parts.buffer
    )


def check_flags(chosen: Correct, source: Source) -> None:
    """Refuse what cannot be meant, before anything is loaded or written."""
    for flag, value, most in (
        ("k", chosen.k, source.rows - 1),
        ("queries", chosen.queries, None),
        ("corrector-hidden", chosen.corrector_hidden, None),
    ):
        if value < 1 or value > (most or value):
            rule = f"from 1 to {most}, fewer than the targets" if most else "at least 1"
            raise InputError(f"--{flag} must be {rule}, got {value}")
    if 10 * chosen.k > source.rows:
        chance = f"{chosen.k / source.rows:.2f} by chance alone"
        _LOG.warning("--k %d: of %d targets any index finds %s", chosen.k, source.rows, chance)
    if not 0 < chosen.scale < math.inf:
        raise InputError(f"--scale must be above 0 and finite, got {chosen.scale}")
    if chosen.run and chosen.method != "auto":
        raise InputError(f"--method {chosen.method}: with --run nothing is fitted")
    if chosen.loss == "ce" and (chosen.run or chosen.method in ("linear", "procrustes")):
        other = "--run" if chosen.run else f"--method {chosen.method}"
        raise InputError(f"--loss ce is for a network, {other} trains none")
    if chosen.run and chosen.sampling != "uniform":
        raise InputError(f"--sampling {chosen.sampling}: with --run the sample only judges")
    if chosen.sampling == "coverage":
        load_faiss()


def sampled(chosen: Correct, source: Source) -> int | None:
    """Return how many targets to sample, or None if it is seconds that are given."""
    given = {"fraction": chosen.fraction, "count": chosen.count, "seconds": chosen.seconds}
    flags = [f"--{flag} {value}" for flag, value in given.items() if value is not None]
    if len(flags) > 1:
        raise InputError(f"say how much to embed by one flag, not by {' and '.join(flags)}")
    if chosen.seconds is None:
        fraction = FRACTION if not flags else chosen.fraction
        return sample_size(source.rows, source.dim, fraction, chosen.count)
    if not chosen.seconds > 0:
        raise InputError(f"--seconds must be above 0, got {chosen.seconds}")
    return None


def re_embed_count(chosen: Correct, rows: int, size: int | None) -> int:
    """Return how many targets to embed beyond a sample of some size, or say why that cannot be."""
    many = chosen.re_embed
    if not 0 <= many <= rows or (many >= 1 and many != int(many)):
        rule = f"a part of the targets below 1 or a number up to {rows}"
        raise InputError(f"--re-embed must be {rule}, got {many}")
    if not many and chosen.re_embed_by != "retrieved":
        raise InputError(f"--re-embed-by {chosen.re_embed_by} needs --re-embed: how many")
    if many and (chosen.run or not chosen.keep_fresh):
        flag = "--run" if chosen.run else "--no-keep-fresh"
        raise InputError(f"--re-embed puts fresh vectors beside corrected ones, {flag} does not")
    wanted = round(many * rows) if many < 1 else int(many)
    if many and not wanted:
        raise InputError(f"--re-embed {many}: that part of {rows} targets is not one of them")
    if size is not None and size + wanted > rows:
        rule = f"a sample of {size} and {wanted} more"
        raise InputError(f"--re-embed: {rows} targets cannot make {rule}")
    return wanted
