"""What made a buffer: enough to refuse it to another encoder or corpus, and to say why."""

import hashlib
import json

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Module

from unstale.data.dataset import Texts
from unstale.encoders.embed import is_cosine, prompt_of
from unstale.encoders.load import hash_weights, max_length, tower_modules
from unstale.encoders.tokenise import tokenizer_text

Fingerprint = dict[str, str | int | None]


def fingerprint(model: SentenceTransformer, targets: Texts) -> Fingerprint:
    """Describe the target tower and the corpus: equal fingerprints give equal buffers.

    Only the target's tower counts, so tied and separate towers that start equal share a buffer.
    """
    return {
        "weights": hash_weights(tower_modules(model, "document").state_dict()),
        "modules": _modules(model),
        "texts": targets.digest,
        "targets": len(targets),
        "prompt": prompt_of(model, "document"),
        "max_length": max_length(model, "document"),
        "similarity": "cosine" if is_cosine(model) else "dot",
    }


def differences(found: Fingerprint, expected: Fingerprint) -> list[str]:
    """List the fields in which two fingerprints differ, with both values."""
    return [
        f"{key}: the buffer has {_short(found.get(key))}, this job {_short(expected.get(key))}"
        for key in sorted(found.keys() | expected.keys())
        if found.get(key) != expected.get(key)
    ]


def _modules(model: SentenceTransformer) -> str:
    """Hash what shapes a vector besides weights: pooling and the like, and the tokenizer."""
    parts = [tokenizer_text(model)]
    for module in tower_modules(model, "document"):
        config = module.get_config_dict() if isinstance(module, Module) else {}
        parts.append(f"{type(module).__name__} {json.dumps(config, sort_keys=True, default=str)}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _short(value: str | int | None) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:13]}..."
