"""`unstale search`."""

from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.cli import options
from unstale.cli.folders import CONFIG
from unstale.cli.folders import read_config as read_flags
from unstale.data.load import load_dataset
from unstale.encoders.embed import embed_queries
from unstale.encoders.load import load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.search.exact import Exact

INDEX = "index"


def run(chosen: options.Search) -> None:
    """Answer one query from a run's model and corpus."""
    folder = Path(chosen.run)
    if not chosen.query.strip():
        raise InputError("the query is empty")
    config = read_config(folder)
    dataset = load_dataset(config["data"])
    if not 1 <= chosen.k <= len(dataset.targets):
        raise InputError(f"cannot show {chosen.k} of {len(dataset.targets)} targets")
    model = load_encoder(
        str(folder / "model"),
        device=config.get("device"),
        trust_remote_code=bool(config.get("trust_remote_code")),
    )
    buffer, _ = embed_corpus(
        model,
        target_tokens(model, dataset),
        folder / INDEX,  # kept: the next search starts at once
        fingerprint(model, dataset.targets),
    )
    best = Exact(buffer).top_k(embed_queries(model, [chosen.query]), chosen.k)
    table = Table(box=box.SIMPLE_HEAD, show_lines=True, title=chosen.query, title_justify="left")
    for name in ("rank", "score", "id"):
        table.add_column(name, justify="right" if name != "id" else "left")
    table.add_column("target", ratio=1)
    rows = best.rows[0].numpy()
    for rank, (score, key, text) in enumerate(
        zip(
            best.scores[0].tolist(),
            dataset.target_ids.take(rows),
            dataset.targets.take(rows),
            strict=True,
        ),
        1,
    ):
        table.add_row(str(rank), f"{score:.3f}", Text(key), Text(shorten(text, chosen.width)))
    Console().print(table)


def read_config(folder: Path) -> dict[str, Any]:
    """Read which data a run was trained on."""
    path = folder / CONFIG
    if not path.is_file() or not (folder / "model").is_dir():
        raise InputError(f"{folder} is not a finished training run (no {CONFIG} and model/)")
    try:
        config = read_flags(folder)
        assert isinstance(config["data"], str)
    except (KeyError, AssertionError):
        raise InputError(f"{path} does not say which data the run used") from None
    return dict(config)


def shorten(text: str, width: int) -> str:
    """Cut a long target, and show control characters instead of obeying them."""
    shown = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"
