"""The flags against false negatives, with sentence-transformers' names."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Filtering:
    """What may be a false negative.

    Args:
        absolute_margin: Mine only what scores at least so much below the positive, by corrected
            scores.
        relative_margin: Mine only what scores below the positive by at least this share of its
            score: 0.05 keeps what is below 95% of it.
        max_score: Mine only what scores at most so much.
        min_score: Mine only what scores at least so much.
        range_min: Skip so many of the best candidates.
        range_max: Consider only so many of the best candidates for each query; default: ten times
            what is mined if a margin, max-score or a cross-encoder may drop some.
        cross_encoder: Ask this cross-encoder, and drop what it scores above the positive. Its
            scores are kept in the cache folder: no pair is scored twice.
        cross_encoder_margin: Drop also what it scores less than this below the positive.
    """

    absolute_margin: float | None = None
    relative_margin: float | None = None
    max_score: float | None = None
    min_score: float | None = None
    range_min: int = 0
    range_max: int | None = None
    cross_encoder: str | None = None
    cross_encoder_margin: float = 0.0
