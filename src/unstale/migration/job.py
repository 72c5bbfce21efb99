"""One migration, from old vectors and a new encoder to new vectors and a verdict."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, final

from sentence_transformers import SentenceTransformer

from unstale.buffer.fingerprint import fingerprint
from unstale.data.dataset import RetrievalDataset
from unstale.distributed import on_first
from unstale.encoders.embed import is_cosine
from unstale.encoders.load import hash_weights
from unstale.errors import InputError, RunError
from unstale.files import write_json
from unstale.integrity import digest, read_object, sha256
from unstale.migration.embed import Stages
from unstale.migration.fitting import Fitting
from unstale.migration.index import write_index
from unstale.migration.queries import part_queries
from unstale.migration.settings import MigrateSettings
from unstale.migration.stale import (
    StaleVectors,
    check_ranking,
    check_texts,
    check_values,
    file_states,
    files_of,
)
from unstale.migration.validate import Interval, as_json
from unstale.migration.vectors import open_vectors
from unstale.migration.verdict import verdict

FORMAT = 1  # of what is kept to resume from
MADE_OF = "made_of.json"
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
        resume: Continue an interrupted migration in `output`, with the settings it began with.

    Returns:
        Where the new vectors are, and how good they are, with 95% intervals.
    """
    folder = Path(output)
    if not resume and folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; resume, or choose another folder")
    chosen, old = settings or MigrateSettings(), open_vectors(Path(vectors))
    return Migration(old, dataset, lambda: model, chosen).run(folder)


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
    ) -> None:
        self.source, self.dataset, self.settings = source, dataset, settings
        self._read = file_states(source.path)
        check_texts(source, dataset)
        self.size, self.more = settings.sizes(source.rows, source.dim)
        self.queries = part_queries(settings, dataset)
        check_values(source)
        self.model = encoder()
        check_ranking(source, unit=is_cosine(self.model))

    def run(self, output: Path) -> Migrated:
        """Sample, embed, fit, validate, correct everything, and weigh what that cost."""
        source, dataset, queries = self.source, self.dataset, self.queries
        on_first(lambda: self._check_same(output / STAGES / MADE_OF))
        asked = queries.embed(self.model, dataset)
        stages = Stages(self.model, dataset, output / STAGES)
        device = self.model.device
        done = Fitting(source, stages, asked, self.settings, device).run(self.size, self.more)
        sample, made_by = done.sample, fingerprint(self.model, dataset.targets)
        path, correcting = write_index(
            source, done.learned.corrector, sample.known(), output, made_by, device
        )
        if file_states(source.path) != self._read:
            raise RunError(f"{source.path} was changed while it was read: start anew")
        seconds = {"embedding": sample.seconds, "fitting": done.seconds, "correcting": correcting}
        overlap, count = done.found[f"overlap@{self.settings.k}"], len(sample.rows)
        vectors = {"format": source.format, "rows": source.rows, "width": source.dim}
        vectors |= {"new_width": sample.fresh.shape[1], "dtype": source.dtype.name}
        asking = {"split": queries.split, "validate": len(queries.check)}
        cost = {"targets_embedded": count, "held_out": int(sample.held_out.sum())}
        results = {
            "data": dataset.counts,
            "vectors": vectors | {"written": path.name},
            "corrector": done.learned.about,
            "queries": asking | {"guide": len(queries.guide)},
            "cost": cost | {"re_embedded": done.re_embedded, "seconds": seconds},
            "validation": as_json(done.found),
            "curve": done.curve,
            "verdict": verdict(overlap, source.rows, count, **seconds),
        }
        return Migrated(path, done.found, results)

    def _check_same(self, path: Path) -> None:
        """Refuse to resume what was begun with other vectors, texts, settings or another model."""
        settings = {f.name: getattr(self.settings, f.name) for f in fields(MigrateSettings)}
        vectors = [sha256(path) for path in files_of(self.source.path)]
        now = dict(self.dataset.identity) | {"vectors": digest(vectors), "format": FORMAT}
        now |= {"model": hash_weights(self.model.state_dict()), "settings": str(settings)}
        if not path.is_file():
            write_json(path, now)
        found = read_object(path)
        for name, value in now.items():
            if found.get(name) != value:
                was = f"was {found.get(name)}, is {value} now"
                raise InputError(f"cannot resume {path.parent}: {name} changed since ({was})")
