"""The paper's f and g: from tokens to vectors, through any SentenceTransformer.

An encoder here *is* a `SentenceTransformer`. Its routes are named by sentence-transformers:
"query" for f, "document" for g; a model without a `Router` has one tower that serves both.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from unstale.data.tokens import Features, TokenStore, to_device
from unstale.distributed import gather, share

Task = Literal["query", "document"]
# Tokens of one forward pass, padding included. A CPU is faster with what fits into its cache.
_TOKENS, _TOKENS_ON_CPU = 16_384, 4096


def prompt_of(model: SentenceTransformer, task: Task) -> str:
    """Return the prompt that `encode_query` or `encode_document` would put before a text."""
    names = ["query"] if task == "query" else ["document", "passage", "corpus"]
    return next((model.prompts[n] or "" for n in names if n in model.prompts), "")


def preprocess(model: SentenceTransformer, texts: Sequence[str], task: Task) -> Features:
    """Tokenise as the model's own `encode_query` and `encode_document` do."""
    return dict(model.preprocess(list(texts), prompt=prompt_of(model, task) or None, task=task))


def is_cosine(model: SentenceTransformer) -> bool:
    """Tell whether the model compares by cosine, so that its vectors are to be normalised."""
    return model.similarity_fn_name in (None, "cosine")


def is_static(model: nn.Module) -> bool:
    """Tell whether the model looks its token vectors up in a table and averages them."""
    return any(isinstance(module, StaticEmbedding) for module in model.modules())


def embed(model: nn.Module, features: Features, task: Task, *, unit: bool) -> Float[Tensor, "b d"]:
    """Run one tower on prepared features; gradients flow. `unit` normalises the vectors."""
    vectors = model(features, task=task)["sentence_embedding"]
    return functional.normalize(vectors, dim=-1) if unit else vectors


@torch.no_grad()
def embed_queries(
    model: SentenceTransformer, texts: Sequence[str], *, batch_size: int = 256
) -> Float[Tensor, "n d"]:
    """Embed query texts in evaluation mode, sorted by length to waste no padding."""
    order = np.argsort([len(t) for t in texts], kind="stable")
    vectors = torch.zeros(len(texts), dimension(model))
    with evaluating(model):
        for start in range(0, len(texts), batch_size):
            rows = order[start : start + batch_size]
            features = to_device(preprocess(model, [texts[r] for r in rows], "query"), model.device)
            vectors[rows] = embed(model, features, "query", unit=is_cosine(model)).float().cpu()
    return vectors


@torch.no_grad()
def embed_targets(
    model: SentenceTransformer,
    tokens: TokenStore,
    rows: Int[ndarray, " n"],
    *,
    tokens_per_batch: int | None = None,
    device: torch.device | str = "cpu",
    progress: tqdm | None = None,  # type: ignore[type-arg]
) -> Float[Tensor, "n d"]:
    """Embed targets by row in evaluation mode; the order of the result is that of `rows`.

    The result is in main memory, unless another device is named.
    """
    vectors = torch.zeros(len(rows), dimension(model), device=device)
    on_cpu = model.device.type == "cpu" and not is_static(model)
    budget = tokens_per_batch or (_TOKENS_ON_CPU if on_cpu else _TOKENS)
    with evaluating(model):
        for batch in token_batches(tokens.lengths(rows), budget):
            features = tokens.features(rows[batch], model.device)
            fresh = embed(model, features, "document", unit=is_cosine(model))
            vectors[torch.from_numpy(batch).to(device)] = fresh.float().to(device)
            if progress is not None:
                progress.update(len(batch))
    return vectors


def embed_together(
    model: SentenceTransformer, tokens: TokenStore, rows: Int[ndarray, " n"]
) -> Float[Tensor, "n d"]:
    """Do as `embed_targets`, each process its share of the rows; all get all the vectors."""
    return gather(embed_targets(model, tokens, rows[share(len(rows))]))


def token_batches(lengths: Int[ndarray, " n"], budget: int) -> Iterator[Int[ndarray, " b"]]:
    """Group places, shortest first, so that a padded group holds at most `budget` tokens.

    Example:
        >>> [b.tolist() for b in token_batches(np.array([3, 1, 4, 2]), 6)]
        [[1, 3], [0], [2]]
    """
    order = np.argsort(lengths, kind="stable")
    start = 0
    for end in range(1, len(order) + 1):
        full = end == len(order) or (end - start + 1) * max(1, lengths[order[end]]) > budget
        if full:
            yield order[start:end]
            start = end


def dimension(model: SentenceTransformer) -> int:
    """Return D, the width of the model's vectors."""
    width = model.get_embedding_dimension()
    if width is None:  # a stack that does not say: ask it
        features = preprocess(model, ["one"], "document")
        with torch.no_grad(), evaluating(model):
            width = embed(model, features, "document", unit=False).shape[1]
    return width


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model in evaluation mode for a block, then back as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


@contextmanager
def in_float32(model: nn.Module) -> Iterator[None]:
    """Run a model for a block as it will be loaded, though a trainer runs it in mixed precision.

    Accelerate puts a `forward` under autocast into the module itself, and keeps the one before. (A
    compiled module is another one, which runs as it was compiled.)
    """
    mixed = vars(model).pop("forward", None) if "_original_forward" in vars(model) else None
    try:
        yield
    finally:
        if mixed is not None:
            model.forward = mixed
