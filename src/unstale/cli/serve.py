"""`unstale serve`: a run, to try in a browser."""

import ipaddress
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.embed import open_or_embed
from unstale.buffer.fingerprint import fingerprint
from unstale.cli.options_care import Serve
from unstale.cli.run_folder import finished_config, is_rag, open_asker, open_index, open_trained
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.encoders.load import default_towers, load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.rag.load import load_questions
from unstale.serve.page import Page
from unstale.serve.server import listen
from unstale.serve.sides import Side

_BEFORE = "index-before"  # the corpus as the encoder embedded it before training
_EXAMPLES = 5
_SHAPE = "layers query_prompt target_prompt query_max_length target_max_length device".split()


def run(chosen: Serve) -> None:
    """Load both models, listen, and answer until stopped."""
    with listen(chosen.host, chosen.port) as server:  # first: a port in use is said at once
        server.page = open_page(chosen)
        host, port = str(server.server_address[0]), server.server_address[1]
        if not _is_loopback(host):
            print(f"anyone who can reach {host} can read the targets")
        print(f"open http://{host}:{port} (Ctrl+C stops it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped")


def open_page(chosen: Serve) -> Page:
    """Load everything that the page shows of a run."""
    folder = Path(chosen.run)
    config = finished_config(folder)
    rag = is_rag(folder)
    dataset = load_questions(config["data"]).dataset if rag else load_dataset(config["data"])
    if chosen.k < 1:
        raise InputError(f"cannot show {chosen.k} targets")
    trained, base = open_trained(folder, config), _open_base(config)
    return Page(
        folder.resolve().name,
        dataset,
        Side(base, _before(folder, config, base, dataset)),
        Side(trained, open_index(folder, trained, dataset)),
        open_asker(folder, config, trained, dataset) if rag else None,
        _examples(dataset, str(config.get("eval_split", "test"))),
        chosen.k,
    )


def _open_base(config: dict[str, Any]) -> SentenceTransformer:
    """Load the encoder that the run started from, in the shape that it was trained in."""
    name = str(config.get("retriever") or config.get("model"))
    shape: dict[str, Any] = {key: config.get(key) for key in _SHAPE}
    towers = config.get("towers") or default_towers(name)
    trusted = bool(config.get("trust_remote_code"))
    return load_encoder(name, towers=towers, trust_remote_code=trusted, **shape)


def _before(
    folder: Path, config: dict[str, Any], model: SentenceTransformer, dataset: RetrievalDataset
) -> TargetBuffer:
    """Open the buffer that the run embedded at its start, or embed the corpus once more."""
    made_by = fingerprint(model, dataset.targets)
    owner = folder.resolve().parent.parent  # of a comparison's cell
    places = [folder / "buffer", folder / "stale" / "buffer", owner / "buffer"]
    if config.get("buffer"):
        places.insert(0, Path(config["buffer"]))
    for place in places:
        try:
            return TargetBuffer.open(place, made_by)
        except InputError:
            continue  # not there, or not of this model
    tokens = target_tokens(model, dataset)
    return open_or_embed(model, tokens, made_by, None, folder / _BEFORE)[0]


def _examples(dataset: RetrievalDataset, split: str) -> list[str]:
    """Draw some queries that the training has not seen."""
    rows = dataset.qrels[split].query_rows if split in dataset.qrels else np.arange(0)
    chosen = np.random.default_rng(0).permutation(rows)[:_EXAMPLES]
    return dataset.queries.take(chosen)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
