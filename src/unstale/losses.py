"""The losses of the paper: Algorithm 1, the corrector's, and those of Algorithm 2."""

from unstale.corrector.losses import cross_entropy, mean_squared_error
from unstale.rag.algorithm2 import RetrieverReaderLoss
from unstale.rag.losses import marginal_nll, perplexity_distillation, token_nll
from unstale.training.algorithm1 import FreshNegativesLoss

__all__ = [
    "FreshNegativesLoss",
    "RetrieverReaderLoss",
    "cross_entropy",
    "marginal_nll",
    "mean_squared_error",
    "perplexity_distillation",
    "token_nll",
]
