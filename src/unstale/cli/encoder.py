"""From the encoder's flags to an encoder."""

from sentence_transformers import SentenceTransformer

from unstale.cli.options import EncoderFlags, RagFlags
from unstale.encoders.load import default_towers, load_encoder


def open_encoder(chosen: EncoderFlags | RagFlags, *, dropout: bool = False) -> SentenceTransformer:
    """Load the encoder that the flags describe."""
    return load_encoder(
        chosen.model,
        towers=chosen.towers or default_towers(chosen.model),
        layers=chosen.layers,
        query_prompt=chosen.query_prompt,
        target_prompt=chosen.target_prompt,
        query_max_length=chosen.query_max_length,
        target_max_length=chosen.target_max_length,
        dropout=dropout,
        device=chosen.device,
        trust_remote_code=chosen.trust_remote_code,
    )
