"""Migrate an index: sample, embed, fit, validate, write, and say what it cost and lost."""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor, nn
from tqdm import tqdm

from unstale.errors import InputError
from unstale.migrate.learn import Learned, Method, learn
from unstale.migrate.sample import Sampling, choose
from unstale.migrate.validate import Interval, as_json, mean_interval, neighbour_overlap
from unstale.migrate.vectors import CHUNK, Source
from unstale.migrate.write import write_vectors

Embed = Callable[[Int[ndarray, " n"]], Float[Tensor, "n e"]]
CURVE = (0.25, 0.5)  # of the sample, for the curve of quality against sample size


@final
@dataclass(frozen=True)
class Asked:
    """Fresh query vectors: some to fit to, others to validate on."""

    fit: Float[Tensor, "f e"] | None
    check: Float[Tensor, "c e"] | None


@final
@dataclass(frozen=True)
class Sampled:
    """The targets embedded with the new encoder."""

    rows: Int[ndarray, " n"]
    held_out: Bool[ndarray, " n"]
    stale: Float[Tensor, "n d"]
    fresh: Float[Tensor, "n e"]
    seconds: float


def draw_sample(
    source: Source, size: int, embed: Embed, *, sampling: Sampling, seed: int
) -> Sampled:
    """Choose targets and embed them with the new encoder."""
    rows, held_out = choose(source, size, sampling, seed)
    began = time.perf_counter()
    fresh = embed(rows)
    seconds = time.perf_counter() - began
    if len(fresh) != len(rows) or not bool(torch.isfinite(fresh).all()):
        raise InputError(f"the new encoder gave {len(fresh)} vectors for {len(rows)} targets")
    return Sampled(rows, held_out, torch.from_numpy(source.take(rows)), fresh, seconds)


def corrected_chunks(
    source: Source,
    corrector: nn.Module,
    rows: Int[ndarray, " n"],
    fresh: Float[Tensor, "n e"],
    *,
    progress: bool = False,
) -> Iterator[tuple[int, Float[Tensor, "m e"]]]:
    """Yield the new index by pieces: corrected, but for the rows whose fresh vectors are known.

    Memory is one piece and its hidden layer, whatever the number of rows.
    """
    known = torch.from_numpy(rows)
    with tqdm(total=source.rows, desc="correcting", unit="target", disable=not progress) as bar:
        for start, stale in source.chunks(CHUNK):
            with torch.no_grad():
                corrected = corrector(torch.from_numpy(stale))
            here = ((known >= start) & (known < start + len(stale))).nonzero()[:, 0]
            corrected[known[here] - start] = fresh[here]
            bar.update(len(stale))
            yield start, corrected


def validate(
    source: Source, learned: Learned, sample: Sampled, asked: Asked, *, k: int, keep_fresh: bool
) -> dict[str, Interval]:
    """Judge a corrector on the held-out targets and queries."""
    held = torch.from_numpy(sample.held_out)
    with torch.no_grad():
        seen = learned.corrector(sample.stale[held])
    cosine = torch.cosine_similarity(seen, sample.fresh[held]).numpy()
    intervals = {"cosine": mean_interval(cosine.astype(np.float64), least=-1.0)}
    # Without queries, held-out targets ask: their fresh vectors are as good as any new text's.
    queries = asked.check if asked.check is not None else sample.fresh[held]
    kept = sample.rows if keep_fresh else sample.rows[:0]

    def pieces() -> Iterator[tuple[int, Float[Tensor, "m e"]]]:
        return corrected_chunks(source, learned.corrector, kept, sample.fresh[: len(kept)])

    intervals[f"overlap@{k}"] = neighbour_overlap(
        queries,
        pieces,
        torch.from_numpy(sample.rows),
        sample.fresh,
        sample.fresh[held] - seen,
        k,
    )
    return intervals


def learn_and_validate(
    source: Source,
    sample: Sampled,
    asked: Asked,
    *,
    method: Method,
    hidden: int,
    k: int = 10,
    keep_fresh: bool = True,
    curve: bool = True,
    scale: float = 20.0,
    seed: int = 0,
) -> tuple[Learned, dict[str, Interval], list[dict[str, Any]]]:
    """Fit on the sample, judge on what it holds out, and on smaller samples for the curve."""
    settings: dict[str, Any] = {"method": method, "hidden": hidden, "scale": scale, "seed": seed}
    taught = (~sample.held_out).nonzero()[0]
    generator = np.random.default_rng(seed)
    points = []
    for part in CURVE if curve else ():
        # The held-out targets stay the same, so that the points of the curve can be compared.
        some = generator.permutation(taught)[: round(part * len(taught))]
        few = np.sort(np.concatenate([some, sample.held_out.nonzero()[0]]))
        smaller = replace(
            sample, rows=sample.rows[few], held_out=sample.held_out[few],
            stale=sample.stale[few], fresh=sample.fresh[few],
        )  # fmt: skip
        fitted = learn(smaller.stale, smaller.fresh, smaller.held_out, asked.fit, **settings)
        found = validate(source, fitted, smaller, asked, k=k, keep_fresh=keep_fresh)
        points.append({"embedded": len(few), **as_json(found)})
    learned = learn(sample.stale, sample.fresh, sample.held_out, asked.fit, **settings)
    found = validate(source, learned, sample, asked, k=k, keep_fresh=keep_fresh)
    points.append({"embedded": len(sample.rows), **as_json(found)})
    return learned, found, points


def write_corrected(
    source: Source,
    learned: Learned,
    sample: Sampled,
    folder: Path,
    made_by: dict[str, Any],
    *,
    keep_fresh: bool = True,
    progress: bool = True,
) -> tuple[Path, float]:
    """Correct everything from disk to disk; return where, and the seconds it took."""
    began = time.perf_counter()
    kept = sample.rows if keep_fresh else sample.rows[:0]
    pieces = corrected_chunks(
        source, learned.corrector, kept, sample.fresh[: len(kept)], progress=progress
    )
    weights = hashlib.sha256()
    for name, tensor in sorted(learned.corrector.state_dict().items()):
        weights.update(name.encode() + tensor.contiguous().numpy().tobytes())
    path = write_vectors(
        source,
        folder,
        ((start, vectors.numpy()) for start, vectors in pieces),
        sample.fresh.shape[1],
        made_by | {"corrected": weights.hexdigest()},
    )
    return path, time.perf_counter() - began
