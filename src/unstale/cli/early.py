"""What can be known to be wrong from flags, folders and names alone, before torch is imported."""

import logging
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

from unstale.alone import (
    check_dims,
    check_given_negatives,
    check_mined,
    check_sizes,
    check_towers,
)
from unstale.cli.by_command import OWN
from unstale.cli.compared import USUAL
from unstale.cli.config import place_of
from unstale.cli.flags import flag_values
from unstale.cli.folders import check_output
from unstale.cli.options import OutputFlags
from unstale.data.names import check_name, missing_splits, split_name
from unstale.encoders.declared import check_layers, check_length, check_reader, read_declared
from unstale.encoders.packaged import check_model, packaged_model
from unstale.errors import InputError
from unstale.hub import check_reachable
from unstale.integrity import check_manifest
from unstale.strategies import NegativeCounts, find_traits
from unstale.training.arguments import check_given

_MODELS = ("model", "old_model", "retriever", "reader", "cross_encoder")
_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "npu", "mtia", "xla")
_SMALL = 4_000_000  # bytes of data that are read in a moment
_OPTIONAL = ("doctor", "experiment")  # commands that need no --output


def check_early(command: str, chosen: Any) -> None:  # noqa: ANN401 - a dataclass of options
    """Refuse what cannot work; where the hub is needed, see whether it is there."""
    values = flag_values(chosen)
    if isinstance(chosen, OutputFlags) and (chosen.output or command not in _OPTIONAL):
        check_output(chosen)
    check_device(values.get("device"))
    if values.get("data"):
        check_name(str(values["data"]))
    for name in (str(values[key]) for key in _MODELS if values.get(key)):
        check_model(name)
    if values.get("reader"):
        check_reader(str(values["reader"]))
    for key in ("corpus", "buffer", "vectors", "ids", "path"):
        named = str(values.get(key) or "")
        if named and "://" not in named and not place_of(named).exists():
            what = " is not a buffer" if key == "buffer" else ""
            raise InputError(f"{values[key]}{what}: there is no such file or folder")
        if key == "buffer" and named:
            check_manifest(Path(named))
    if values.get("run") and not Path(values["run"]).is_dir():
        raise InputError(f"there is no run folder {values['run']!r}")
    check_given(values.get("trainer") or {})
    _check_shape(values)
    OWN.get(command, lambda _: None)(chosen)
    if values.get("data"):
        _check_data(command, values)
    for key in _MODELS:
        if values.get(key) and _asks_hub(str(values[key])):
            check_reachable(str(values[key]), key.replace("_", "-"))
    data = split_name(str(values.get("data") or "docstrings"))
    if data.on_hub and _asks_hub(data.place):
        check_reachable(data.place, "dataset")


def _check_shape(values: Mapping[str, Any]) -> None:
    """Refuse layers, lengths and dimensions that the files of the model say it has not."""
    name = str(values.get("model") or values.get("retriever") or "")
    if not name or "layers" not in values:
        return
    files = read_declared(name)
    if values["layers"] is not None and files.layers is not None:
        check_layers(values["layers"], files.layers, name)
    for length in (values["query_max_length"], values["target_max_length"]):
        if length is not None and not files.separate:
            check_length(length, files.longest)
    check_dims(values.get("matryoshka_dims") or (), files.width)
    traits = find_traits(str(values.get("strategy")), rag=False)
    towers = values["towers"] or ("separate" if name == "tiny" else None)
    if traits and files.separate is not None:
        check_towers(traits, shared=not files.separate and towers != "separate")


def _check_data(command: str, values: Mapping[str, Any]) -> None:
    """Refuse data in no known format, without the columns that are needed or without a split."""
    name, asked = str(values["data"]), values.get("eval_split", values.get("split"))
    if command == "rag" or values.get("reader"):
        _check_questions(name, values.get("corpus"), values.get("k"))
        return
    from unstale.data.load import peek_splits  # not above: a wrong flag need not wait for it

    has = peek_splits(name, judged=command != "correct")
    if has is None:
        return
    if command in ("train", "compare", "doctor"):
        missing_splits(name, has, "train", 0.0)
    if asked is not None and "holdout" in values:
        missing_splits(name, has, asked, values["holdout"])
    _check_sizes(command, values)


def _check_sizes(command: str, values: Mapping[str, Any]) -> None:
    """Refuse what small data shows to be too much or not there: it is read in a moment.

    Nobody asks for more negatives, or for a larger batch, than there is in more data than this.
    """
    name, place = str(values["data"]), Path(split_name(str(values["data"])).place)
    asked = ("hard_negatives", "uniform_negatives", "given_negatives", "batch_size", "strict")
    if not any(values.get(key) for key in asked) or not is_small(place):
        return
    from unstale.data.load import load_dataset

    logging.disable()  # the command itself reads the same again, and says so
    try:
        dataset = load_dataset(name, progress=False, strict=bool(values.get("strict")))
    finally:
        logging.disable(logging.NOTSET)
    targets, batch = len(dataset.targets), values.get("batch_size") or 1
    hard, uniform = (values.get(key) or 0 for key in asked[:2])
    if command == "mine":
        check_mined(hard, targets)
    if command not in ("train", "compare", "doctor"):
        return
    train = dataset.split("train")
    if values.get("given_negatives"):
        check_given_negatives(values["given_negatives"], len(train.negatives), dataset.name)
    named = values.get("strategies") or values.get("strategy") or USUAL
    for strategy in named.split(","):
        traits = find_traits(strategy.partition(":")[0].strip(), rag=False)
        mines = traits is not None and any(traits.negatives)
        counts = NegativeCounts(hard, uniform) if mines else NegativeCounts(0, 0)
        check_sizes(counts, targets, batch, len(train.pairs))


def is_small(place: Path) -> bool:
    """Tell whether a file or folder is read in a moment; a built-in set's name is neither."""
    files = place.rglob("*") if place.is_dir() else [place]
    return place.exists() and sum(f.stat().st_size for f in files if f.is_file()) <= _SMALL


def _check_questions(name: str, corpus: str | None, k: int | None) -> None:
    """Refuse a table without questions and answers, and a corpus without texts."""
    from unstale.data.formats.reading import Reading
    from unstale.rag.table import TABLES, read_table
    from unstale.rag.texts import no_corpus, read_texts

    _, place, columns = split_name(name)
    path, reading = Path(place), Reading()
    if path.is_file() and path.suffix in TABLES:
        next(read_table(path, columns, False, reading), None)
        if not corpus and "context" not in reading.columns:
            raise no_corpus(path)
    if corpus:
        texts = read_texts(str(corpus), False)
        first, small = next(texts, None), is_small(Path(split_name(str(corpus)).place))
        if first and small and k and k > (count := 1 + sum(1 for _ in texts)):
            raise InputError(f"--k must be from 1 to the corpus's {count} targets, got {k}")


def check_device(name: str | None) -> None:
    """Refuse a device that torch does not know, or finds none of; a CPU is there without a look."""
    kind, colon, index = (name or "cpu").partition(":")
    known = kind in _DEVICES or "torch" in sys.modules or entry_points(group="torch.backends")
    if not known or (colon and not index.isdigit()):
        rule = f"--device must be one of {', '.join(_DEVICES)}, or such as cuda:1"
        raise InputError(f"{rule}, got {name!r}")
    if kind in ("cuda", "mps", "xpu"):
        if version("torch").endswith("+cpu"):  # as its package says: it need not be imported
            raise InputError(f"--device {name}: the installed torch is the build for CPUs only")
        import torch  # and nothing else yet

        here = torch.accelerator.current_accelerator(check_available=True)
        count = torch.accelerator.device_count() if here else 0
        if here is None or here.type != kind or int(index or 0) >= count:
            there = f"{count} x {here.type}" if here else "only the CPU"
            raise InputError(f"--device {name}: torch finds {there} on this machine")


def _asks_hub(name: str) -> bool:
    return name != "tiny" and not Path(name).exists() and packaged_model(name) is None
