"""One migration, from old vectors and a new encoder to new vectors and a verdict."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from sentence_transformers import SentenceTransformer

from unstale.buffer.fingerprint import fingerprint
from unstale.corrector.network import Corrector
from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import is_cosine
from unstale.errors import InputError
from unstale.migration.embed import Stages
from unstale.migration.fitting import Fitting
from unstale.migration.index import write_index
from unstale.migration.learn import Learned
from unstale.migration.queries import part_queries
from unstale.migration.settings import MigrateSettings, check_size
from unstale.migration.stale import StaleVectors, check_ranking, check_texts, check_values
from unstale.migration.validate import Interval, as_json
from unstale.migration.vectors import open_vectors
from unstale.migration.verdict import verdict

STAGES = "embedded"  # in the output folder: what was chosen and embedded, to resume from


@final
@dataclass(frozen=True)
class Migrated:
    """What a migration wrote and found."""

    path: Path  # the new vectors, in the format of the old ones
    validation: dict[str, Interval]  # cosine, overlap@k and, with qrels, recall@10
    results: dict[str, Any]  # everything that results.json holds


def migrate(
    vectors: Path | str,
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    output: Path | str,
    settings: MigrateSettings | None = None,
    *,
    corrector: Corrector | None = None,
    resume: bool = False,
) -> Migrated:
    """Bring old vectors up to date with a new encoder by embedding only a sample.

    Args:
        vectors: The old vectors, never modified: .npy, .safetensors, .parquet, .faiss, or a buffer
            that `unstale embed` wrote. Row by row they belong to the targets of the dataset.
        dataset: The texts, and queries for the validation if there are any.
        model: The new encoder.
        output: A new or empty folder for the new vectors.
        settings: How to migrate; see `MigrateSettings`.
        corrector: The corrector of a training run; nothing is fitted then, and the sample only
            validates.
        resume: Continue an interrupted migration in `output`, with the settings it began with.

    Returns:
        Where the new vectors are, and how good they are, with 95% intervals.
    """
    folder = Path(output)
    if not resume and folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; resume, or choose another folder")
    chosen, old = settings or MigrateSettings(), open_vectors(Path(vectors))
    return Migration(old, dataset, lambda: model, chosen, corrector, resume=resume).run(folder)


@final
class Migration:
    """A migration that may run: what `migrate` takes was checked, and nothing is written yet.

    `encoder` loads the new encoder, once everything that needs none is checked.
    """

    def __init__(
        self,
        source: StaleVectors,
        dataset: RetrievalDataset,
        encoder: Callable[[], SentenceTransformer],
        settings: MigrateSettings,
        corrector: Corrector | None = None,
        *,
        resume: bool = False,
    ) -> None:
        self.source, self.dataset, self.settings, self.given = source, dataset, settings, None
        check_texts(source, dataset)
        if corrector is not None:
            widths = [layer.in_features for layer in corrector.linear]
            if widths[0] != source.dim:
                found = f"{source.path} has vectors of width {source.dim}"
                raise InputError(f"the corrector takes vectors of width {widths[0]}, {found}")
            self.given = Learned(corrector, {"method": "run", "hidden": widths[1:]})
            # It may be off by a vector common to all targets: fresh vectors beside its own would
            # rank wrongly.
            self.settings = replace(settings, keep_fresh=False)
        run = corrector is not None
        self.size, self.more = settings.sizes(source.rows, source.dim, run=run)
        self.queries = part_queries(settings, dataset)
        check_values(source)
        self.model = encoder()
        check_ranking(source, unit=is_cosine(self.model) and not run)
        if self.size is None and not resume:  # too little time is refused before it is spent
            self.size = self._affordable()

    def run(self, output: Path) -> Migrated:
        """Sample, embed, fit, validate, correct everything, and weigh what that cost."""
        source, dataset, queries = self.source, self.dataset, self.queries
        asked = queries.embed(self.model, dataset)
        stages = Stages(self.model, dataset, output / STAGES)
        fitting = Fitting(source, stages, asked, self.settings, self.given)
        done = fitting.run(lambda: self.size or self._affordable(), self.more)
        sample, written = done.sample, fitting.written(done.sample)
        made_by = fingerprint(self.model, dataset.targets)
        path, correcting = write_index(source, done.learned.corrector, written, output, made_by)
        seconds = {"embedding": sample.seconds, "fitting": done.seconds, "correcting": correcting}
        overlap, count = done.found[f"overlap@{self.settings.k}"], len(sample.rows)
        vectors = {"format": source.format, "rows": source.rows, "width": source.dim}
        vectors |= {"new_width": sample.fresh.shape[1], "dtype": source.dtype.name}
        asking = {"split": queries.split, "validate": len(queries.check)}
        cost = {"targets_embedded": count, "held_out": int(sample.held_out.sum())}
        cost |= {"re_embedded": done.re_embedded, "fresh_kept": len(written.rows)}
        results = {
            "data": dataset.counts,
            "vectors": vectors | {"written": path.name},
            "corrector": done.learned.about,
            "queries": asking | {"guide": len(queries.guide)},
            "cost": cost | {"seconds": seconds},
            "validation": as_json(done.found),
            "curve": done.curve,
            "verdict": verdict(overlap, source.rows, count, **seconds),
        }
        return Migrated(path, done.found, results)

    def _affordable(self) -> int:
        """Return how many targets can be embedded in the time to spend, by timing a few."""
        rows, seconds = self.source.rows, self.settings.seconds or 0.0
        few = np.linspace(0, rows - 1, min(32, rows)).astype(np.int64)
        began = time.perf_counter()
        self.model.encode_document(self.dataset.targets.take(few))
        each = (time.perf_counter() - began) / len(few)
        try:
            return check_size(int(min(rows, seconds / each)), rows, self.source.dim)
        except InputError as error:
            raise InputError(f"--seconds {seconds} at {each:.2g} s a target: {error}") from None
