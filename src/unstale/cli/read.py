"""What a command reads, by its flags: the data and the encoder, the same in all processes."""

from dataclasses import fields

from sentence_transformers import SentenceTransformer

from unstale.cli.options import EncoderFlags, RagFlags, ShapeFlags
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.distributed import check_processes, first_alone, rank, world
from unstale.encoders.load import default_towers, hash_weights, load_encoder
from unstale.machine import allow_tf32


def read_data(name: str, *, judged: bool = True, strict: bool = False) -> RetrievalDataset:
    """Load the data that the flags name, first in process 0, which may have to make it."""
    with first_alone():
        dataset = load_dataset(name, progress=rank() == 0, judged=judged, strict=strict)
    if world() > 1:  # a digest of all texts takes a moment
        check_processes(dataset.identity)
    return dataset


def open_encoder(
    chosen: EncoderFlags | RagFlags, *, dropout: bool = False, tf32: bool | None = None
) -> SentenceTransformer:
    """Load the encoder that the flags describe; on CUDA it computes in TF32, unless told not to."""
    shape = {f.name: getattr(chosen, f.name) for f in fields(ShapeFlags)}
    shape["towers"] = chosen.towers or default_towers(chosen.model)
    model = load_encoder(chosen.model, dropout=dropout, **shape)
    allow_tf32(model.device, tf32)
    if world() > 1:
        check_processes({"model": hash_weights(model.state_dict())})
    return model
