"""Scores of a cross-encoder, each pair of texts scored once: they are kept on disk."""

import sqlite3
import weakref
from hashlib import blake2b
from pathlib import Path
from typing import final

import torch
from jaxtyping import Float, Int
from sentence_transformers import CrossEncoder
from torch import Tensor

from unstale.data.dataset import RetrievalDataset
from unstale.encoders.load import hash_weights
from unstale.errors import InputError
from unstale.files import cache_folder

_ASK = 500  # keys to one query of the cache
_WAIT = 60  # seconds for another process to finish writing


@final
class CrossScores:
    """Score pairs of a query and a target, by row; a pair that was ever scored costs nothing.

    The cache is a file for each cross-encoder, by its weights and length, in the cache folder. Its
    keys are the texts, so that it serves other runs and other datasets too.

    Args:
        name: A sentence-transformers cross-encoder with one output: a folder, or a hub name.
        folder: Of the cache; by default that of unstale.
    """

    def __init__(
        self,
        name: str,
        dataset: RetrievalDataset,
        *,
        device: str | None = None,
        folder: Path | None = None,
    ) -> None:
        self._model = open_cross_encoder(name, device)
        self._dataset = dataset
        self.scored = 0  # pairs that the model ran on
        folder = folder or cache_folder() / "cross-encoders"
        folder.mkdir(parents=True, exist_ok=True)
        weights = hash_weights(self._model.state_dict())
        made_by = f"{weights} {self._model.max_seq_length} {self._model.activation_fn}"
        key = blake2b(made_by.encode(), digest_size=10).hexdigest()
        self._cache = sqlite3.connect(folder / f"{key}.sqlite", timeout=_WAIT)
        weakref.finalize(self, self._cache.close)
        with self._cache:
            columns = "(pair BLOB PRIMARY KEY, score REAL) WITHOUT ROWID"
            self._cache.execute(f"CREATE TABLE IF NOT EXISTS scores {columns}")

    def __call__(
        self, queries: Int[Tensor, " n"], targets: Int[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """Return the scores of pairs of rows."""
        query_texts = self._dataset.queries.take(queries.cpu().numpy())
        target_texts = self._dataset.targets.take(targets.cpu().numpy())
        texts = list(zip(query_texts, target_texts, strict=True))
        keys = [_key(*pair) for pair in texts]
        known = self._recall(keys)
        new = {key: pair for key, pair in zip(keys, texts, strict=True) if key not in known}
        if new:
            scores = self._model.predict(
                list(new.values()), convert_to_tensor=True, show_progress_bar=False
            )
            if not scores.isfinite().all():  # the cache would keep it for ever
                raise InputError("the cross-encoder gave a score that is not finite")
            fresh = dict(zip(new, scores.float().tolist(), strict=True))
            self.scored += len(fresh)
            with self._cache as cache:
                cache.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", fresh.items())
            known |= fresh
        return torch.tensor([known[key] for key in keys])

    def _recall(self, keys: list[bytes]) -> dict[bytes, float]:
        known: dict[bytes, float] = {}
        for start in range(0, len(keys), _ASK):
            some = keys[start : start + _ASK]
            marks = ",".join("?" * len(some))
            wanted = f"SELECT * FROM scores WHERE pair IN ({marks})"  # noqa: S608 - question marks
            found = self._cache.execute(wanted, some)
            known.update((key, score) for key, score in found if score is not None)
        return known


def _key(query: str, target: str) -> bytes:
    head = query.encode()
    text = len(head).to_bytes(8, "little") + head + target.encode()
    return blake2b(text, digest_size=16).digest()


def open_cross_encoder(name: str, device: str | None = None) -> CrossEncoder:
    """Load a cross-encoder that gives one score."""
    try:
        model = CrossEncoder(name, device=device)
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"cannot load the cross-encoder {name!r} ({reason})") from None
    if model.num_labels != 1:
        rule = "only one that gives a single score can tell which of two targets is better"
        raise InputError(f"the cross-encoder {name!r} has {model.num_labels} outputs: {rule}")
    return model
