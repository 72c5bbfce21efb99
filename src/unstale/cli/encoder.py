"""From the encoder's flags to an encoder."""

from dataclasses import fields

from sentence_transformers import SentenceTransformer

from unstale.cli.options import EncoderFlags, RagFlags, ShapeFlags
from unstale.encoders.load import default_towers, load_encoder


def open_encoder(chosen: EncoderFlags | RagFlags, *, dropout: bool = False) -> SentenceTransformer:
    """Load the encoder that the flags describe."""
    shape = {f.name: getattr(chosen, f.name) for f in fields(ShapeFlags)}
    shape["towers"] = chosen.towers or default_towers(chosen.model)
    return load_encoder(chosen.model, dropout=dropout, **shape)
