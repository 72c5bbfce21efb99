"""What do a model's own files say of it, before it is loaded? Nothing heavy is imported."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, final

from unstale.encoders.packaged import packaged_model
from unstale.errors import InputError

_LAYERS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")  # as configs name them
_WIDTH = ("hidden_size", "d_model", "dim", "n_embd")
_CAUSAL = ("ForCausalLM", "LMHeadModel")  # how transformers names models that write text
_PLAIN = {"Transformer", "Pooling", "Normalize"}  # modules that leave the width as it is


@final
class Declared(NamedTuple):
    """What is known of a model; None is not known."""

    layers: int | None = None  # of each transformer; 0 if it has none
    longest: int | None = None  # text, in tokens
    width: int | None = None  # of its embeddings
    separate: bool | None = None  # towers


def read_declared(name: str) -> Declared:
    """Read what the files of a folder, of a packaged model or of `tiny` say."""
    minilm = packaged_model("all-MiniLM-L6-v2")
    if name == "tiny":
        width = read_declared(str(minilm)).width if minilm else None
        return Declared(layers=0, width=width, separate=False)
    folder = Path(name) if Path(name).is_dir() else packaged_model(name)
    if folder is None:
        return Declared()
    parts = _read(folder / "modules.json", [{"type": kind} for kind in _PLAIN])
    kinds = {str(part.get("type")).rpartition(".")[2] for part in parts if isinstance(part, dict)}
    configs = [_read(path, {}) for path in sorted(folder.rglob("config.json"))]
    layers = _found(configs, _LAYERS)
    pooling = [_read(path / "config.json", {}) for path in folder.glob("*Pooling")]
    modes = sum(value is True for config in pooling for value in config.values())
    plain = kinds <= _PLAIN and modes < 3  # one of them, and whether prompts are included
    lengths = [_read(path, {}) for path in folder.rglob("sentence_bert_config.json")]
    return Declared(
        layers=min(layers, default=0 if kinds and not kinds & {"Transformer", "Router"} else None),
        longest=min(_found(lengths, ("max_seq_length",)), default=None),
        width=min(_found(configs, _WIDTH), default=None) if plain else None,
        separate="Router" in kinds if kinds else None,
    )


def check_reader(name: str) -> None:
    """Refuse a reader whose own config.json says that it writes no text; else the loading tells."""
    folder = Path(name) if Path(name).is_dir() else packaged_model(name)
    config = _read(folder / "config.json", {}) if folder else {}
    kinds, decoder = config.get("architectures"), any("decoder_" in key for key in config)
    if isinstance(kinds, list) and kinds and not decoder:
        both = config.get("is_encoder_decoder") is True
        check_writes(name, config.get("model_type"), kinds, both=both)


def check_writes(name: str, model_type: object, kinds: Iterable[object], *, both: bool) -> None:
    """Refuse a model that has neither an encoder and a decoder nor a head that writes text."""
    if not both and not any(str(kind).endswith(_CAUSAL) for kind in kinds):
        rule = "a reader needs an encoder and a decoder, as T5 has, or writes text, as Llama does"
        raise InputError(f"{name} is a {model_type}: {rule}")


def check_layers(layers: int, total: int, name: str) -> None:
    """Refuse to keep more layers than there are."""
    if not total:
        raise InputError(f"--layers {layers}: {name} has no transformer layers")
    if not 1 <= layers <= total:
        raise InputError(f"--layers {layers}: {name} has {total} layers to choose from")


def check_length(length: int, longest: int | None) -> None:
    """Refuse to cut a text after more tokens than the model reads, or before the first."""
    if length < 1:
        raise InputError(f"a maximum length of {length} tokens leaves nothing to encode")
    if longest is not None and length > longest:
        raise InputError(f"the model reads at most {longest} tokens, not {length}")


def _found(configs: list[dict[str, Any]], keys: tuple[str, ...]) -> list[int]:
    values = (next((c[key] for key in keys if key in c), None) for c in configs)
    return [value for value in values if isinstance(value, int)]


def _read(path: Path, default: Any) -> Any:  # noqa: ANN401 - JSON
    """Read a file if it is there and whole; the loading tells what is wrong with it."""
    try:
        read = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return default
    return read if isinstance(read, type(default)) else default
