"""What a finished training run knows: its flags, its data, its stale buffer, its corrector."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.embed import open_or_embed
from unstale.buffer.fingerprint import fingerprint
from unstale.cli.folders import CONFIG, read_config
from unstale.corrector.network import Corrector
from unstale.data.dataset import RetrievalDataset
from unstale.encoders.load import load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.rag.ask import Asker
from unstale.rag.job import ANSWERING
from unstale.rag.reader import load_reader

WEIGHTS = "corrector.safetensors"
INDEX = "index"  # the corpus as the trained model embeds it, kept: the next search starts at once


class RunParts(NamedTuple):
    """Where the parts of a run are."""

    data: str
    model: str
    buffer: str


def finished_config(folder: Path) -> dict[str, Any]:
    """Read the flags of a run that has a model; those of a comparison's cell are its comparison's.

    They name the data that the run was trained on.
    """
    cells = folder / "cells"
    if not (folder / "model").is_dir():
        trained = sorted(str(path.parent) for path in cells.glob("*/model"))
        if trained:
            raise InputError(f"{folder} is a comparison; name one of its cells, e.g. {trained[0]}")
        raise InputError(f"{folder} is not a finished training run (no model/)")
    owner = folder
    if not (folder / CONFIG).is_file() and folder.resolve().parent.name == "cells":
        owner = folder.resolve().parent.parent
    path = owner / CONFIG
    if not path.is_file():
        raise InputError(f"{folder} is not a finished training run (no {CONFIG})")
    config = read_config(owner)
    if not isinstance(config.get("data"), str):
        raise InputError(f"{path} does not say which data the run used")
    return config


def open_trained(folder: Path, config: dict[str, Any]) -> SentenceTransformer:
    """Load the encoder that a run trained."""
    trusted = bool(config.get("trust_remote_code"))
    return load_encoder(
        str(folder / "model"), device=config.get("device"), trust_remote_code=trusted
    )


def open_index(folder: Path, model: SentenceTransformer, dataset: RetrievalDataset) -> TargetBuffer:
    """Open the corpus as a run's trained encoder embeds it, or embed it once."""
    made_by, tokens = fingerprint(model, dataset.targets), target_tokens(model, dataset)
    return open_or_embed(model, tokens, made_by, None, folder / INDEX)[0]


def is_rag(folder: Path) -> bool:
    """Tell whether a run has a reader that answers."""
    return (folder / ANSWERING).is_file()


def open_asker(
    folder: Path, config: dict[str, Any], model: SentenceTransformer, dataset: RetrievalDataset
) -> Asker:
    """Load what `unstale rag` trained: the reader, and the corpus if it retrieves."""
    how = json.loads((folder / ANSWERING).read_text("utf-8"))
    reader = load_reader(
        str(folder / "reader"),
        max_length=how["max_length"],
        answer_length=how["answer_length"],
        device=model.device,
        trust_remote_code=bool(config.get("trust_remote_code")),
    ).eval()
    buffer = open_index(folder, model, dataset) if how["k"] else None
    return Asker(model, reader, dataset, buffer, how)


def run_parts(run: str) -> RunParts:
    """Find the data, the trained encoder and the stale buffer of a run that has a corrector."""
    folder = Path(run)
    path = folder / CONFIG
    if not path.is_file() or not (folder / WEIGHTS).is_file():
        raise InputError(f"{folder} is not a finished run with a corrector")
    config = read_config(folder)
    if not isinstance(config.get("data"), str):
        raise InputError(f"{path} does not say which data the run used")
    buffer = str(config.get("buffer") or folder / "buffer")
    return RunParts(config["data"], str(folder / "model"), buffer)


def run_corrector(run: str, width: int) -> Corrector:
    """Load the corrector of a run, for vectors of a width."""
    path = Path(run) / WEIGHTS
    state = load_file(path)
    layers = {f"layers.{k.split('layers.')[1]}": v for k, v in state.items() if "layers." in k}
    if not layers:
        raise InputError(f"{path} holds no corrector")
    hidden = [len(layers[f"layers.{i}.weight"]) for i in range(len(layers) // 2 - 1)]
    found = layers["layers.0.weight"].shape[1]
    if found != width:
        raise InputError(f"{path} takes vectors of width {found}, not {width}")
    corrector = Corrector(found, hidden)
    corrector.load_state_dict(layers)
    return corrector.eval()
