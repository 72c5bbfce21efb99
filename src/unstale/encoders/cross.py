"""Scores of a cross-encoder, for pairs of a query and a target."""

from typing import final

import torch
from jaxtyping import Float, Int
from sentence_transformers import CrossEncoder
from torch import Tensor

from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError

_MOST = 2**19  # scores to keep, in some hundred megabytes


@final
class CrossScores:
    """Score pairs of a query and a target, by row; the last scores are kept in memory.

    Args:
        name: A sentence-transformers cross-encoder with one output: a folder, or a hub name.
    """

    def __init__(self, name: str, dataset: RetrievalDataset, *, device: str | None = None) -> None:
        self._model = open_cross_encoder(name, device)
        self._dataset = dataset
        self._known: dict[tuple[int, int], float] = {}
        self.scored = 0  # pairs that the model ran on

    def __call__(
        self, queries: Int[Tensor, " n"], targets: Int[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """Return the scores of pairs of rows."""
        if len(self._known) > _MOST:  # a long run would fill the memory
            self._known.clear()
        pairs = list(zip(queries.tolist(), targets.tolist(), strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if new:
            texts = [(self._dataset.queries[q], self._dataset.targets[t]) for q, t in new]
            scores = self._model.predict(texts, convert_to_tensor=True, show_progress_bar=False)
            if not scores.isfinite().all():
                raise InputError("the cross-encoder gave a score that is not finite")
            self._known |= zip(new, scores.float().tolist(), strict=True)
            self.scored += len(new)
        return torch.tensor([self._known[pair] for pair in pairs])


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
