"""What a finished training run knows: its data, its stale buffer, its corrector."""

from pathlib import Path
from typing import NamedTuple

from safetensors.torch import load_file

from unstale.cli.folders import CONFIG, read_config
from unstale.corrector.network import Corrector
from unstale.errors import InputError

WEIGHTS = "corrector.safetensors"


class RunParts(NamedTuple):
    """Where the parts of a run are."""

    data: str
    model: str
    buffer: str


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
