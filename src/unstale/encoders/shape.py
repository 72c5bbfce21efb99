"""What is an encoder made of? For reports."""

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer

from unstale.encoders.load import max_length, tower_modules


def encoder_shape(model: SentenceTransformer) -> dict[str, int]:
    """Return the transformer layers of a target's tower, and the tokens after which texts are cut.

    What a model does not have, such as layers of static embeddings, is left out.
    """
    towers = tower_modules(model, "document").modules()
    stacks = [m.model.config.num_hidden_layers for m in towers if isinstance(m, Transformer)]
    shape = {
        "layers": stacks[0] if stacks else None,
        "query_tokens": max_length(model, "query"),
        "target_tokens": max_length(model, "document"),
    }
    return {name: int(value) for name, value in shape.items() if value is not None}
