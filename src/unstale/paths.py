"""Where unstale keeps what can be made again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder for caches: `$UNSTALE_CACHE`, or `~/.cache/unstale`."""
    return Path(os.environ.get("UNSTALE_CACHE", "~/.cache/unstale")).expanduser()
