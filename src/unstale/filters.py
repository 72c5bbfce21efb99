"""Which mined targets may be false negatives? The rules, as a user sets them."""

from collections.abc import Sequence
from dataclasses import dataclass

from unstale.errors import InputError

# Rules that compare a target with the query's positive.
WITH_POSITIVE = ("absolute_margin", "relative_margin", "cross_encoder_margin")


@dataclass(frozen=True)
class Filters:
    """False negatives: which mined targets to leave out, with sentence-transformers' names.

    Scores are those of the strategy, corrected if it corrects. The positive's score is that of the
    query's lowest known positive.

    Args:
        absolute_margin: Mine only targets that score at least this much below the positive.
        relative_margin: Mine only targets that score below the positive by at least this share of
            its score. 0.05 keeps what scores below 95% of it.
        max_score: Mine only targets that score at most this much.
        min_score: Mine only targets that score at least this much.
        range_min: Skip this many of the best candidates of each query.
        range_max: Consider only this many of the best candidates of each query. Default: as many
            as are mined, or ten times that if a margin, --max-score or a cross-encoder may drop
            some, and range_min more.
        cross_encoder_margin: With a cross-encoder, drop targets that it does not score at least
            this much below the positive.
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

    def check(self, k: int, refused: Sequence[str] = ()) -> None:
        """Refuse ranges that leave fewer than k, and rules that a job has no use for."""
        for name in refused:
            if getattr(self, name) != getattr(Filters, name):
                rule = "it compares with a positive, and questions with answers have none"
                others = ", ".join(n for n in vars(self) if n not in refused)
                said = f"--{name}: {rule}; the rules without one are {others}"
                raise InputError(said.replace("_", "-"))
        if self.range_min < 0:
            raise InputError(f"--range-min must be at least 0, got {self.range_min}")
        if self.range_max is not None and self.range_max - self.range_min < k:
            window = f"--range-min {self.range_min} and --range-max {self.range_max}"
            raise InputError(f"cannot mine {k} targets between {window}")
        if self.relative_margin is not None and self.relative_margin >= 1:
            rule = "it is a share of the positive's score, such as 0.05"
            raise InputError(
                f"--relative-margin must be below 1, got {self.relative_margin}: {rule}"
            )
        low, high = self.min_score, self.max_score
        if low is not None and high is not None and low > high:
            raise InputError(f"--min-score {low} is above --max-score {high}: nothing can be mined")
