"""Tokenise a corpus for an encoder, once: the store is cached by what it depends on."""

import hashlib

from sentence_transformers import SentenceTransformer

from unstale.data.dataset import RetrievalDataset
from unstale.data.tokens import TokenStore
from unstale.encoders.embed import preprocess, prompt_of
from unstale.encoders.load import max_length, tower_modules
from unstale.paths import cache_folder


def target_tokens(
    model: SentenceTransformer, dataset: RetrievalDataset, *, progress: bool = True
) -> TokenStore:
    """Tokenise the corpus for the model's target tower, or take it from the cache."""
    tower = tower_modules(model, "document")
    tokenizer = next(t for m in tower.modules() if (t := getattr(m, "tokenizer", None)) is not None)
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    limit = max_length(model, "document")
    depends = [
        backend.to_str() if hasattr(backend, "to_str") else repr(tokenizer),
        type(tower[0]).__name__,
        prompt_of(model, "document"),
        str(limit),
        dataset.targets.digest,
    ]
    key = hashlib.sha256("\0".join(depends).encode()).hexdigest()
    return TokenStore.build(
        dataset.targets,
        lambda texts: preprocess(model, texts, "document"),
        cache_folder() / "tokens" / key[:20],
        pad=getattr(tokenizer, "pad_token_id", None) or 0,
        max_length=limit,
        progress=progress,
    )
