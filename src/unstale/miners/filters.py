"""Which candidates may be false negatives? Rules by score and by rank."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Bool, Float
from torch import Tensor

from unstale.errors import InputError


@final
@dataclass(frozen=True)
class Filters:
    """Drop candidates that score too high, or too low; names and rules of `mine_hard_negatives`.

    Args:
        absolute_margin: Keep what scores at least so much below the positive.
        relative_margin: Keep what scores at least this share of the positive's score below it.
        max_score: Keep what scores at most so much.
        min_score: Keep what scores at least so much.
        range_min: Skip so many of the best that are kept.
        range_max: Consider only so many of the best; default: ten for each that is wanted if
            something may be dropped for a high score, otherwise what is wanted; and `range_min`.
        cross_encoder_margin: Keep what a cross-encoder, if there is one, scores at least so much
            below the positive.
    """

    absolute_margin: float | None = None
    relative_margin: float | None = None
    max_score: float | None = None
    min_score: float | None = None
    range_min: int = 0
    range_max: int | None = None
    cross_encoder_margin: float = 0.0

    @property
    def idle(self) -> bool:
        """Tell whether nothing is asked for."""
        return self == Filters(cross_encoder_margin=self.cross_encoder_margin)

    def considered(self, k: int, *, veto: bool) -> int:
        """Return how many candidates to consider for k negatives."""
        if self.range_max is not None:
            return self.range_max
        rules = (self.absolute_margin, self.relative_margin, self.max_score)
        choosy = veto or any(rule is not None for rule in rules)
        return self.range_min + (10 * k if choosy else k)

    def check(self, k: int) -> None:
        """Refuse ranges that leave fewer than k."""
        if self.range_min < 0:
            raise InputError(f"expected range_min >= 0, not {self.range_min}")
        if self.range_max is not None and self.range_max - self.range_min < k:
            window = f"range_min {self.range_min} and range_max {self.range_max}"
            raise InputError(f"cannot take {k} negatives between {window}")
        if None not in (low := self.min_score, high := self.max_score) and low > high:  # type: ignore[operator]
            raise InputError(f"min_score {low} is above max_score {high}: nothing would be kept")

    def too_high(
        self, scores: Float[Tensor, "b n"], positive: Float[Tensor, "b 1"]
    ) -> dict[str, Bool[Tensor, "b n"]]:
        """Mark, rule by rule, the candidates that may be positives themselves."""
        marks = {}
        if self.absolute_margin is not None:
            marks["absolute_margin"] = scores + self.absolute_margin > positive
        if self.relative_margin is not None:
            # By the magnitude: a share of a negative score would raise the bar instead.
            marks["relative_margin"] = scores > positive - positive.abs() * self.relative_margin
        if self.max_score is not None:
            marks["max_score"] = scores > self.max_score
        return marks

    def too_low(self, scores: Float[Tensor, "b n"]) -> Bool[Tensor, "b n"] | None:
        """Mark the candidates that are too easy."""
        return None if self.min_score is None else scores < self.min_score
