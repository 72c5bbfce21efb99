"""`unstale serve`: a run, to try in a browser."""

from pathlib import Path

from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.fingerprint import fingerprint
from unstale.cli.finished import FinishedRun
from unstale.cli.options_inspect import ServeFlags
from unstale.cli.signals import Terminated
from unstale.data.dataset import RetrievalDataset
from unstale.errors import InputError
from unstale.serve.page import Page
from unstale.serve.server import HOST, listen
from unstale.serve.sides import Side
from unstale.shown import say

_BEFORE = "index-before"  # the corpus as the encoder embedded it before training


def run(chosen: ServeFlags) -> None:
    """Load both models, listen, and answer until stopped."""
    with listen(chosen.port) as server:  # first: a port in use is reported at once
        server.page = open_page(chosen)
        say(f"open http://{HOST}:{server.server_address[1]} (Ctrl+C stops it)", flush=True)
        try:
            server.serve_forever()
        except Terminated:
            raise
        except KeyboardInterrupt:
            say("stopped")


def open_page(chosen: ServeFlags) -> Page:
    """Load everything that the page shows of a run."""
    finished = FinishedRun.open(chosen.run, trust_remote_code=chosen.trust_remote_code)
    dataset = finished.load_data()
    trained, base = finished.load_trained(), finished.load_base()
    return Page(
        finished.folder.resolve().name,
        dataset,
        Side(base, _before(finished, base, dataset)),
        Side(trained, finished.open_index(trained, dataset)),
        finished.open_asker(trained, dataset) if finished.answers else None,
        chosen.k,
    )


def _before(
    finished: FinishedRun, model: SentenceTransformer, dataset: RetrievalDataset
) -> TargetBuffer:
    """Open the buffer that the run embedded at its start, or embed the corpus once more."""
    folder, made_by = finished.folder, fingerprint(model, dataset.targets)
    owner = folder.resolve().parent.parent  # of a comparison's cell
    places = [folder / "buffer", folder / "stale" / "buffer", owner / "buffer"]
    if finished.config.get("buffer"):
        places.insert(0, Path(finished.config["buffer"]))
    for place in places:
        try:
            return TargetBuffer.open_checked(place, made_by)
        except InputError:
            continue  # not there, or not of this model
    return finished.open_index(model, dataset, _BEFORE)
