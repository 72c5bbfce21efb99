"""What a run leaves beside its figures: the encoders, and the corrector."""

from pathlib import Path

from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from torch import nn

from unstale.files import atomic_file, atomic_folder


def save_weights(output: Path, model: SentenceTransformer, miner: nn.Module) -> None:
    """Write the encoders as a plain folder, and what the miner learned, if anything."""
    with atomic_folder(output / "model") as folder:
        model.save_pretrained(str(folder))
    if weights := {k: v.detach().contiguous() for k, v in miner.named_parameters()}:
        with atomic_file(output / "corrector.safetensors") as file:
            save_file(weights, file)
