"""Tokenise a corpus for an encoder, once: the store is cached by what it depends on."""

import hashlib
import json
from typing import Any

from sentence_transformers import SentenceTransformer

from unstale.data.dataset import RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.encoders.embed import preprocess, prompt_of
from unstale.encoders.load import max_length, tower_modules
from unstale.files import cache_folder


def target_tokens(
    model: SentenceTransformer, dataset: RetrievalDataset, *, progress: bool = True
) -> TokenStore:
    """Tokenise the corpus for the model's target tower, or take it from the cache."""
    limit = max_length(model, "document")
    depends = [
        tokenizer_text(model),
        type(tower_modules(model, "document")[0]).__name__,
        prompt_of(model, "document"),
        str(limit),
        dataset.targets.digest,
    ]
    key = hashlib.sha256("\0".join(depends).encode()).hexdigest()
    return TokenStore.build(
        dataset.targets,
        lambda texts: preprocess(model, texts, "document"),
        cache_folder() / "tokens" / key[:20],
        pad=getattr(_tokenizer(model), "pad_token_id", None) or 0,
        max_length=limit,
        progress=progress,
    )


def tokenizer_text(model: SentenceTransformer) -> str:
    """Describe the target tower's tokenizer, but for what each call to it sets anew."""
    tokenizer = _tokenizer(model)
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        return f"{type(tokenizer).__name__} {sorted(tokenizer.get_vocab().items())}"
    described = json.loads(backend.to_str())
    return json.dumps(described | {"truncation": None, "padding": None}, sort_keys=True)


def _tokenizer(model: SentenceTransformer) -> Any:  # noqa: ANN401 - of transformers or tokenizers
    modules = tower_modules(model, "document").modules()
    return next(t for m in modules if (t := getattr(m, "tokenizer", None)) is not None)
