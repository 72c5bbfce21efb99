"""Ask an untouched old index with a new model's query: one vector, made of both models' queries.

A linear map, fitted to the sampled targets' old and fresh vectors, predicts what the new model
would score. Near a query the prediction errs in one direction: the sampled targets that the new
model puts nearest to it, whose true scores are known, say in which, and pull the query there. No
vector is rewritten. This file needs numpy and safetensors alone: an application imports it without
torch.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from unstale.budget import read_object
from unstale.errors import InputError

FORMAT = "unstale query adapter 2"
MATRIX, ABOUT = "adapter.safetensors", "adapter.json"
NEAREST = 64  # sampled targets of a query whose true scores correct the predicted ones
NOISE = 1.0  # of those scores, in mean squared lengths of an old vector


@final
@dataclass(frozen=True)
class QueryAdapter:
    """Turn a query of the old model and of the new one into a query for the old index.

    What the new model would score is predicted from what can be computed without it, relative to
    the mean target: `(old_part * q_old + new_part * M q_new + pull) . (b - mean_old)`. The pull is
    a ridge regression of what this lacks at the sampled targets that are nearest to the new query.

    Args:
        weight: The old model's part of the final score, from 0 to 1; 1 is the old search.
        matrix: M, from the new model's space to the old one's.
        old_part: How the predicted new score follows that of the old query.
        new_part: How it follows that of the mapped new query.
        scale: By what new scores are multiplied so that they vary as old scores do.
        stale: The old vectors of sampled targets.
        fresh: Their vectors by the new model.
        about: What made the adapter.

    Example:
        >>> same, none = np.eye(2, dtype="f"), np.zeros((1, 2), "f")
        >>> adapter = QueryAdapter(0.5, same, 0.0, 1.0, 1.0, none, none, {})
        >>> adapter(np.array([1.0, 0.0]), np.array([0.0, 1.0])).astype("d").round(3).tolist()
        [0.707, 0.707]
    """

    weight: float
    matrix: Float[ndarray, "d e"]
    old_part: float
    new_part: float
    scale: float
    stale: Float[ndarray, "n d"]
    fresh: Float[ndarray, "n e"]
    about: dict[str, Any]

    def __call__(
        self, old: Float[ndarray, "*q d"], new: Float[ndarray, "*q e"]
    ) -> Float[ndarray, "*q d"]:
        """Return unit vectors to search the old index with, by inner product, cosine or L2."""
        mixed = self.mixed(old, new)
        length = np.linalg.norm(mixed, axis=-1, keepdims=True)
        return mixed / np.maximum(length, np.finfo(np.float32).tiny)

    def mixed(
        self, old: Float[ndarray, "*q d"], new: Float[ndarray, "*q e"]
    ) -> Float[ndarray, "*q d"]:
        """Return the queries at the length at which their products are the final scores."""
        say = (1 - self.weight) * self.scale
        return self.weight * self._checked(old, 0) + say * self.predicting(old, new)

    def predicting(
        self, old: Float[ndarray, "*q d"], new: Float[ndarray, "*q e"]
    ) -> Float[ndarray, "*q d"]:
        """Return queries whose products with old vectors predict the new model's scores."""
        old, new = self._checked(old, 0), self._checked(new, 1)
        asked = self.old_part * old + self.new_part * (new @ self.matrix.T)
        flat = zip(asked.reshape(-1, old.shape[-1]), new.reshape(-1, new.shape[-1]), strict=True)
        pulls = [self._pull(*pair) for pair in flat]
        return asked + np.array(pulls, np.float32).reshape(asked.shape)

    def _pull(self, asked: Float[ndarray, " d"], new: Float[ndarray, " e"]) -> Float[ndarray, " d"]:
        """Return what a query lacks to score the sampled targets near it as the new model does."""
        scores = self.fresh @ new
        near = np.argsort(-scores, kind="stable")[:NEAREST]
        there = self.stale[near] - self.mean_old
        lacking = scores[near] - scores.mean() - there @ asked
        noise = max(NOISE * self._spread, float(np.finfo(np.float32).tiny))
        return there.T @ np.linalg.solve(there @ there.T + noise * np.eye(len(near)), lacking)

    @cached_property
    def mean_old(self) -> Float[ndarray, " d"]:
        """Return the mean of the sampled targets' old vectors."""
        return self.stale.mean(axis=0)

    @cached_property
    def mean_new(self) -> Float[ndarray, " e"]:
        """Return the mean of their fresh vectors."""
        return self.fresh.mean(axis=0)

    @cached_property
    def _spread(self) -> float:
        return float(np.square(self.stale - self.mean_old).sum(axis=1).mean())

    def _checked(self, queries: Float[ndarray, "*q w"], side: int) -> Float[ndarray, "*q w"]:
        queries = np.asarray(queries, np.float32)
        width = self.matrix.shape[side]
        if queries.shape[-1] != width:
            rule = f"the {('old', 'new')[side]} model's queries have width {width}"
            raise InputError(f"{rule}, got {queries.shape[-1]}")
        return queries

    def rescore(
        self,
        old: Float[ndarray, " d"],
        new: Float[ndarray, " e"],
        stale: Float[ndarray, "k d"],
        fresh: Float[ndarray, "k e"],
    ) -> Float[ndarray, " k"]:
        """Score what the old index fetched by both models: fresh where the fresh vector is known.

        Args:
            old: The old model's query.
            new: The new model's query.
            stale: The fetched targets' vectors in the old index.
            fresh: Their fresh vectors; rows of NaN where there is none.
        """
        guessed = (stale - self.mean_old) @ self.predicting(old, new) + self.mean_new @ new
        known = ~np.isnan(fresh).any(axis=1)
        now = np.where(known, np.nan_to_num(fresh) @ new, guessed)
        return self.weight * (stale @ old) + (1 - self.weight) * self.scale * now

    def save(self, folder: Path | str) -> Path:
        """Write `adapter.safetensors` and `adapter.json` into a folder, and return it."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {"matrix": self.matrix, "stale": self.stale, "fresh": self.fresh}
        whole = {name: np.ascontiguousarray(a, np.float32) for name, a in arrays.items()}
        save_file(whole, folder / MATRIX)
        numbers = {"weight": self.weight, "old_part": self.old_part, "new_part": self.new_part}
        numbers["scale"] = self.scale
        text = json.dumps({"format": FORMAT, **numbers, "about": self.about}, indent=1)
        (folder / ABOUT).write_text(text + "\n", "utf-8")
        return folder

    @classmethod
    def load(cls, folder: Path | str) -> "QueryAdapter":
        """Read what `save` wrote."""
        path = Path(folder) / ABOUT
        try:
            stored = read_object(path) | load_file(path.with_name(MATRIX))
            if (found := stored.pop("format", None)) != FORMAT:
                raise InputError(f"expected the format {FORMAT!r}, found {found!r}")
            return cls(**stored)
        except (InputError, OSError, SafetensorError, TypeError) as error:
            raise InputError(f"{folder} holds no query adapter ({error})") from None
