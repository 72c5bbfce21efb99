"""Do row and text belong together? A map that is learned from the wrong pairs explains nothing.

The same question is asked of ids, where there are some, and of vectors, where there are none: a
corrected vector is nearer to its own fresh vector than to those of other targets, unless the rows
are in another order than the texts.
"""

import logging
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unstale.data.dataset import RetrievalDataset, Texts
from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
MOST_WRONG = 0.15  # of the rows, before a migration is refused


@final
class Match(NamedTuple):
    """How well vectors are told apart from those of others."""

    nearer: float  # probability that a vector is nearer to its own partner than to another's
    wrong: float  # estimated part of the rows that have another row's text
    least_wrong: float  # the lower end of its 95% interval

    @classmethod
    def of(cls, one: Float[Tensor, "n e"], other: Float[Tensor, "n e"]) -> "Match":
        """Compare each vector with its partner, and with those of all others.

        Where the partner is anybody's, half of the others are nearer; where it is its own, hardly
        any are. So twice the part of rows with more than half of the others nearer estimates how
        many are wrong.
        """
        unit = torch.nn.functional.normalize
        scores = unit(one, dim=1) @ unit(other, dim=1).T
        others = max(1, len(scores) - 1)
        place = (scores > scores.diagonal()[:, None]).sum(dim=1) / others
        lost = float((place > 0.5).float().mean())
        error = (lost * (1 - lost) / len(scores)) ** 0.5
        return cls(float(1 - place.mean()), min(1.0, 2 * lost), max(0.0, 2 * (lost - 1.96 * error)))


def check_order(corrected: Float[Tensor, "h e"], fresh: Float[Tensor, "h e"], where: str) -> Match:
    """Refuse rows that do not follow their texts, judged by held-out targets."""
    found = Match.of(corrected, fresh)
    if found.least_wrong > MOST_WRONG or found.nearer < 0.6:
        rule = f"a corrected vector is nearer to its own text than to another in {found.nearer:.0%}"
        hint = "are rows and texts in the same order? Give the rows' ids with --ids"
        raise InputError(f"{where}: {rule} of {len(fresh)} held-out comparisons; {hint}")
    return found


def check_old_model(
    embedded: Float[Tensor, "h d"], stale: Float[Tensor, "h d"], where: str
) -> float:
    """Refuse rows that are not what the old model makes of their texts; return the mean cosine."""
    found = Match.of(embedded, stale)
    cosine = float(torch.cosine_similarity(embedded, stale).mean())
    if found.least_wrong > MOST_WRONG or found.nearer < 0.6:
        rule = "are not what --old-model makes of their texts"
        hint = "are rows and texts in the same order, and was it that model?"
        raise InputError(f"{where}: {found.wrong:.0%} of {len(stale)} sampled rows {rule}; {hint}")
    if cosine < 0.5:
        rule = f"--old-model makes vectors with a mean cosine of {cosine:.3f} to those of the index"
        raise InputError(f"{where}: {rule}: it is another model; give the one that made the index")
    if cosine < 0.98:
        rule = (
            "--old-model makes vectors with cosine %.3f to those of the index, on average: another"
        )
        _LOG.warning(rule + " length limit, prompt or release? Its queries may be off, too", cosine)
    return cosine


def in_order(dataset: RetrievalDataset, ids: Texts, where: str) -> RetrievalDataset:
    """Put the texts in the order of the rows, by their ids; texts without a row are left out."""
    known = dataset.target_ids
    if (known.rows_in(known) != np.arange(len(known))).any():
        raise InputError(f"{dataset.name}: some target ids stand twice, so rows cannot go by them")
    order = ids.rows_in(known)
    missing = np.flatnonzero(order < 0)
    if len(missing):
        some = ids[missing[0]]
        rule = f"{len(missing)} of {len(ids)} ids, such as {some!r}, are of no text"
        raise InputError(f"{where}: {rule} in {dataset.name} (its ids are such as {known[0]!r})")
    if len(np.unique(order)) < len(order):
        raise InputError(f"{where}: some ids stand twice")
    if len(order) < len(known):
        _LOG.warning("%s has %d texts without a vector", dataset.name, len(known) - len(order))
    return dataset.with_targets(order)
