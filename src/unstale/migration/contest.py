"""Does a relevant target reach the first ten, if the new model has not embedded its rivals?

The relevant target is embedded, so its score is known; what a rival scores is predicted. Where the
prediction misses the relevant target, it misses the rivals near the same query alike, in part. So
the chance that a rival wins is learned from contests whose outcome is known, those with held-out
targets: a probit regression on the predicted margin, on what the prediction missed, and on how far
the relevant target stands out.
"""

from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr

AT_ONCE = 256  # rivals of each contest
RIDGE = 1.0  # keeps the curve finite where every known rival wins, or none


@final
class Contests(NamedTuple):
    """Judged queries, each with one of its relevant targets."""

    query: Int[ndarray, " p"]  # its place among the judged queries
    target: Int[ndarray, " p"]  # a row
    then: Float[ndarray, "p 1"]  # the old model's score of the target
    guess: Float[ndarray, "p 1"]  # what the adapter predicts of the new model's
    now: Float[ndarray, "p 1"]  # the new model's
    mean: Float[ndarray, "p 1"]  # of the query's new scores
    deviation: Float[ndarray, "p 1"]

    def sides(
        self, guess: Float[ndarray, "p n"], needed: Float[ndarray, "p _"]
    ) -> Float[ndarray, "p n 4"]:
        """Describe rivals, in deviations of the query's new scores.

        Args:
            guess: The rivals' predicted scores.
            needed: What they must score to win.
        """
        surprise = self.now - self.guess
        margin = guess - needed + surprise
        whole = np.broadcast_arrays(self.deviation, margin, surprise, needed - self.mean)
        return np.stack([w / self.deviation for w in whole], axis=2)


@final
class Curve(NamedTuple):
    """The chance to win by the sides of a contest."""

    slopes: Float[ndarray, " s"]

    @classmethod
    def fit(cls, sides: Float[ndarray, "m s"], won: Bool[ndarray, " m"]) -> "Curve":
        """Learn it from contests whose outcome is known."""
        sign = np.where(won, 1.0, -1.0)

        def lost(slopes: Float[ndarray, " s"]) -> tuple[float, Float[ndarray, " s"]]:
            z = sign * (sides @ slopes)
            likely = log_ndtr(z)
            pull = sign * np.exp(-(z**2) / 2 - likely) / np.sqrt(2 * np.pi)
            penalty = RIDGE * float(slopes @ slopes) / 2
            return penalty - float(likely.sum()), RIDGE * slopes - pull @ sides

        start = np.zeros(sides.shape[1])
        return cls(minimize(lost, start, jac=True, method="BFGS").x)

    def chance(self, sides: Float[ndarray, "*m s"]) -> Float[ndarray, "*m"]:
        """Return the chance of each rival to win."""
        chance: Float[ndarray, "*m"] = ndtr(sides @ self.slopes)
        return chance

    def chances(
        self, contests: Contests, guess: Float[ndarray, "p n"], needed: Float[ndarray, "p _"]
    ) -> Float[ndarray, "p n"]:
        """Return the chance of each of many rivals, whose sides are never all in memory."""
        parts = [
            self.chance(contests.sides(guess[:, at : at + AT_ONCE], needed))
            for at in range(0, guess.shape[1], AT_ONCE)
        ]
        return np.concatenate(parts, axis=1)


def among_first(k: int, chances: Float[ndarray, "p 2"]) -> Float[ndarray, " p"]:
    """Return the chance that fewer than k rivals win, as if their number were normal.

    Args:
        k: How many are found.
        chances: The mean number of winners, and its variance.

    Example:
        >>> among_first(10, np.array([[0.0, 0.0], [9.5, 4.0], [30.0, 4.0]])).round(3).tolist()
        [1.0, 0.5, 0.0]
    """
    mean, variance = chances.T
    found: Float[ndarray, " p"] = ndtr((k - 0.5 - mean) / np.sqrt(np.maximum(variance, 1e-9)))
    return found


def summed(chance: Float[ndarray, "p n"]) -> Float[ndarray, "p 2"]:
    """Return the mean and the variance of the number of winners."""
    return np.stack([chance.sum(axis=1), (chance * (1 - chance)).sum(axis=1)], axis=1)
