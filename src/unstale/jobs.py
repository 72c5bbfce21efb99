"""The jobs of the command line, for scripts and notebooks: train, evaluate, search."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, NamedTuple, final
from weakref import finalize

from sentence_transformers import SentenceTransformer
from transformers.utils import logging

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.cli.config import save_config
from unstale.cli.finished import FinishedRun
from unstale.cli.options import ShapeFlags, TrainFlags
from unstale.cli.output import run_folder
from unstale.cli.train import warn
from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.beir import write_beir
from unstale.data.holdout import hold_out
from unstale.declare import changed
from unstale.encoders.embed import embed_queries
from unstale.encoders.load import loaded_as
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.evaluation.evaluator import Evaluator
from unstale.files import atomic_folder, cache_folder
from unstale.locks import release
from unstale.miners import strategies
from unstale.results import RunResult, read_results
from unstale.search.exact import Exact
from unstale.training.job import train_checked
from unstale.training.settings import TrainSettings

_DATA = "data"  # in a run folder: data that no file or name could be loaded from again


def train(
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    output: Path | str,
    settings: TrainSettings = TrainSettings(),
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    **changes: Any,  # noqa: ANN401 - settings by name
) -> RunResult:
    """Train an encoder in place, as `unstale train` does, and return the run's results.

    The run folder is that of the command line: `unstale search`, `report` and `serve` open it. A
    folder that holds something is refused.

    Args:
        dataset: The corpus and its training pairs (split `train`). If it has no split to evaluate
            on, a tenth of the training queries is held out; see `holdout`.
        model: The encoder, at its start.
        output: The run folder, new or empty. The trained encoder is in `output/model`.
        settings: The settings of the run.
        resume: Resume from the last checkpoint in `output/checkpoints`.
        overwrite: Replace a folder that an earlier run wrote.
        progress: Show progress bars and logs.
        changes: Settings by name, such as `epochs=3`, which replace those in `settings`.

    Example:
        ```python
        dataset = load_dataset("faq.csv")
        model = load_encoder("all-MiniLM-L6-v2")
        result = train(dataset, model, "runs/faq", epochs=3)
        print(result.initial_metrics["recall@10"], result.metrics["recall@10"])
        ```
    """
    chosen = changed(settings, changes)
    own = {f.name: getattr(chosen, f.name) for f in fields(TrainSettings)}
    shape = {k: v for k, v in loaded_as(model).items() if k in _SHAPE}
    place = dataset.source or str(Path(output) / _DATA)
    flags = TrainFlags(
        **own, **shape, data=place, output=str(output), resume=resume, overwrite=overwrite
    )
    # Data in memory is not read from the folder that is replaced.
    asked = flags if resume else replace(flags, data=dataset.source)
    try:
        with run_folder("train", asked) as folder:
            if folder.finished:
                stored = read_results(folder.path)["runs"][0]
                return RunResult.from_json(stored, str(folder.path))
            held = hold_out(
                dataset, chosen.eval_split, chosen.holdout, dev=chosen.guard, progress=progress
            )
            checked = chosen.check(held, model)
            warn(chosen, {chosen.strategy: checked.strategy}, strategies())
            path = folder.begin()
            save_config(path, "train", flags)
            if not dataset.source and not (path / _DATA).exists():
                with atomic_folder(path / _DATA) as made:
                    write_beir(dataset, made)
            with nullcontext() if progress else _no_bars():
                result = train_checked(held, model, path, checked, resume=resume, progress=progress)
            folder.finish(held.counts, [result])
            return result
    finally:
        release()


@contextmanager
def _no_bars() -> Iterator[None]:
    """Hide the bars of transformers, which asks nobody."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def evaluate(
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    split: str = "test",
    *,
    holdout: float = 0.1,
    progress: bool = True,
) -> dict[str, float]:
    """Measure an encoder as it is: embed the corpus, retrieve for a split's queries, and score.

    Args:
        dataset: The corpus, the queries and their judgements.
        model: Any SentenceTransformer that compares by cosine or dot product.
        split: The split to evaluate on.
        holdout: The share of the training queries to take if the data has no such split: the same
            queries that `train` holds out.
        progress: Show progress bars, and say what is held out.

    Returns:
        recall and success at 1, 5, 10, 20 and 100, mrr@10 and ndcg@10; with answers in the data
        also answer_recall at these places. All are numbers from 0 to 1.
    """
    dataset = hold_out(dataset, split, holdout, progress=progress)
    tokens = target_tokens(model, dataset, progress=progress)
    return Evaluator(dataset, split, tokens, progress=progress)(model)


@final
class Hit(NamedTuple):
    """A target that a search found."""

    score: float
    id: str
    text: str


@final
class Index:
    """A corpus, embedded once, to search with a text.

    The embeddings are in files, so that they may be larger than memory: in the run's folder, or in
    the cache folder until the index is deleted.

    Args:
        dataset: The corpus.
        model: The encoder.

    Example:
        ```python
        index = Index.of_run("runs/faq")  # or Index(dataset, model)
        for hit in index.search("how do I reset my password?", k=5):
            print(f"{hit.score:.3f}  {hit.text[:80]}")
        ```
    """

    def __init__(self, dataset: RetrievalDataset, model: SentenceTransformer) -> None:
        made_by = fingerprint(model, dataset.targets)
        tokens = target_tokens(model, dataset, progress=False)
        place = cache_folder() / "indexes"
        place.mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(dir=place))
        finalize(self, rmtree, folder, ignore_errors=True)
        self._open(dataset, model, embed_corpus(model, tokens, folder, made_by, progress=False)[0])

    @classmethod
    def of_run(cls, run: Path | str) -> "Index":
        """Open what a training run left; its corpus is embedded once, and kept in the folder."""
        finished = FinishedRun.open(str(run), trust_remote_code=False)
        dataset, model = finished.load_data(), finished.load_trained()
        index = cls.__new__(cls)
        index._open(dataset, model, finished.open_index(model, dataset))
        return index

    def _open(
        self, dataset: RetrievalDataset, model: SentenceTransformer, buffer: TargetBuffer
    ) -> None:
        self.dataset, self.model, self._search = dataset, model, Exact(buffer)

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Return the k best targets for a text, best first."""
        if not query.strip():
            raise InputError("the query is empty")
        if not 1 <= k <= len(self.dataset.targets):
            raise InputError(f"cannot show {k} of {len(self.dataset.targets)} targets")
        best = self._search.top_k(embed_queries(self.model, [query]), k)
        rows = best.rows[0].tolist()
        ids, texts = self.dataset.target_ids.take(rows), self.dataset.targets.take(rows)
        return [Hit(*hit) for hit in zip(best.scores[0].tolist(), ids, texts, strict=True)]


_SHAPE = {"model", "device", *(f.name for f in fields(ShapeFlags))}
