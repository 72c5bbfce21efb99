"""From the encoder's flags to an encoder."""

from dataclasses import fields

from sentence_transformers import SentenceTransformer

from unstale.cli.options import EncoderFlags, RagFlags, ShapeFlags
from unstale.encoders.load import default_towers, load_encoder
from unstale.machine import allow_tf32


def open_encoder(
    chosen: EncoderFlags | RagFlags, *, dropout: bool = False, tf32: bool | None = None
) -> SentenceTransformer:
    """Load the encoder that the flags describe; on CUDA it computes in TF32, unless told not to."""
    shape = {f.name: getattr(chosen, f.name) for f in fields(ShapeFlags)}
    shape["towers"] = chosen.towers or default_towers(chosen.model)
    model = load_encoder(chosen.model, dropout=dropout, **shape)
    allow_tf32(model.device, tf32)
    return model
