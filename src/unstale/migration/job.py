"""One migration, from old vectors and a new encoder to new vectors and a verdict."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from numpy import ndarray
from sentence_transformers import SentenceTransformer

from unstale.buffer.embed import Part
from unstale.buffer.fingerprint import fingerprint
from unstale.data.dataset import RetrievalDataset, Texts
from unstale.distributed import check_processes, on_first
from unstale.encoders.embed import dimension, is_cosine
from unstale.encoders.load import hash_weights
from unstale.errors import InputError, RunError
from unstale.files import atomic_folder
from unstale.integrity import digest, sha256
from unstale.migration.adapter import QueryAdapter
from unstale.migration.changes import Changes, check_same
from unstale.migration.embed import PICKED, Stages
from unstale.migration.fitting import RE_EMBEDDED, Fitted, Fitting
from unstale.migration.fused import Fused, Fusing
from unstale.migration.index import Joined, Known, write_index, write_rows
from unstale.migration.joined import FILE as JOINED
from unstale.migration.joined import JoinedQueries
from unstale.migration.order import check_order, in_order
from unstale.migration.queries import logged, part_queries
from unstale.migration.settings import MigrateSettings
from unstale.migration.stale import (
    StaleVectors,
    check_ranking,
    check_texts,
    check_values,
    file_states,
    files_of,
)
from unstale.migration.stores.vectors import StoreVectors
from unstale.migration.validate import Interval, as_json
from unstale.migration.vectors import open_vectors
from unstale.migration.verdict import verdict

ADAPTER = "adapter"  # in the output folder
FORMAT = 1  # of what is kept to resume from
STAGES = "embedded"  # in the output folder: what was chosen and embedded, to resume from


@final
@dataclass(frozen=True)
class Migrated:
    """What a migration wrote and found."""

    path: Path  # the new vectors, or the adapter
    validation: dict[str, Interval]  # cosine, overlap@k and, with qrels, recall@10
    results: dict[str, Any]  # everything that results.json holds


def migrate(
    vectors: Path | str,
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    output: Path | str,
    settings: MigrateSettings | None = None,
    *,
    old_model: SentenceTransformer | None = None,
    ids: Sequence[str] | None = None,
    resume: bool = False,
) -> Migrated:
    """Bring old vectors up to date with a new encoder by embedding only a sample.

    Args:
        vectors: The old vectors, never modified: .npy, .safetensors, .parquet, .faiss, a buffer
            that `unstale embed` wrote, or a collection, as `qdrant:PLACE#COLLECTION`. Row by row
            they belong to the targets of the dataset, or id by id where there are ids.
        dataset: The texts, and queries for the validation if there are any.
        model: The new encoder.
        output: A new or empty folder for the new vectors.
        settings: How to migrate; see `MigrateSettings`.
        old_model: The encoder that made the old vectors; without it there is no query-side way.
        ids: The target ids of the rows, if they are in another order than the dataset.
        resume: Continue an interrupted migration in `output`, with the settings it began with.

    Returns:
        Where the new vectors are, and how good they are, with 95% intervals.
    """
    folder = Path(output)
    if not resume and folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; resume, or choose another folder")
    chosen, old = settings or MigrateSettings(), open_vectors(vectors)
    if ids is not None:
        old.ids = Texts.of(ids)
    before = None if old_model is None else lambda: old_model
    return Migration(old, dataset, lambda: model, chosen, before).run(folder)


@final
class Migration:
    """A migration that may run: what `migrate` takes was checked, and nothing is written yet.

    `encoder` loads the new encoder, once everything that needs none is checked. With a `part` it
    only embeds that part of what is embedded next, and raises `PartDone`.
    """

    def __init__(
        self,
        source: StaleVectors,
        dataset: RetrievalDataset,
        encoder: Callable[[], SentenceTransformer],
        settings: MigrateSettings,
        old_encoder: Callable[[], SentenceTransformer] | None = None,
        part: Part | None = None,
    ) -> None:
        settings.check_way(old_model=old_encoder is not None)
        log = logged(dataset)  # a text without a row takes the answers of its queries along
        if source.ids is not None:
            dataset = in_order(dataset, source.ids, str(source.path))
        self.source, self.dataset, self.settings = source, dataset, settings
        self.part = part
        self._read = file_states(source.path)
        check_texts(source, dataset)
        self.size, self.more = settings.sizes(source.rows, source.dim)
        self.queries = part_queries(settings, dataset, log)
        unit = check_values(source)
        if old_encoder is not None and not unit and source.metric != "inner product":
            rule = f"ranks by {source.metric}, and its vectors are not of length one"
            hint = "the scores of both models cannot be added; run without --old-model"
            raise InputError(f"{source.path} {rule}: {hint}")
        self.old_model = old_encoder() if old_encoder is not None else None
        if self.old_model is not None and dimension(self.old_model) != source.dim:
            widths = f"width {dimension(self.old_model)}, {source.path} {source.dim}"
            raise InputError(f"--old-model makes vectors of {widths}: it did not make these")
        self.model = encoder()
        check_ranking(source, unit=is_cosine(self.model))

    def run(self, output: Path) -> Migrated:
        """Sample, embed, fit and judge; then write what was asked for, and what it cost."""
        source, dataset, queries = self.source, self.dataset, self.queries
        now = self._made_of()
        check_processes(now)
        folder, whole = output / STAGES, self.part is None
        changes = on_first(
            lambda: check_same(folder, now, source.ids, dataset, self.model, whole=whole)
        )
        asked = queries.embed(self.model, dataset)
        stages = Stages(self.model, dataset, folder, self.part, self.settings.engine)
        lists = folder.glob(f"{RE_EMBEDDED}*/{PICKED}")
        earlier = tuple(sorted(path.parent.name for path in lists))
        device = self.model.device
        fitting = Fitting(source, stages, asked, self.settings, device, earlier)
        done = fitting.run(self.size, self.more)
        sample = done.sample
        held = torch.from_numpy(sample.held_out)
        with torch.no_grad():
            seen = done.learned.corrector(sample.stale[held])
        check_order(seen, sample.fresh[held], str(source.path))
        fused = self._fuse(done, stages)
        path, correcting, join = output, 0.0, None
        if self.settings.way == "rewrite":
            if self.settings.fuse and fused is not None:
                join = JoinedQueries(fused.adapter.weight, fused.adapter.scale)
            path, correcting, since = self._rewrite(done, join, output)
            changes = Changes(changes.added + since.added, changes.deleted + since.deleted)
        if file_states(source.path) != self._read:
            raise RunError(f"{source.path} was changed while it was read: start anew")
        if fused is not None and self.settings.way != "verdict":
            on_first(lambda: _save_adapter(fused.adapter, output / ADAPTER))
            path = output / ADAPTER if self.settings.way == "query-side" else path
        seconds = {"embedding": sample.seconds, "fitting": done.seconds, "correcting": correcting}
        results = self._results(done, seconds, path, fused)
        results["vectors"] |= {"joined": join and asdict(join)} | changes._asdict()
        return Migrated(path, done.found, results)

    def _rewrite(
        self, done: Fitted, join: JoinedQueries | None, output: Path
    ) -> tuple[Path, float, Changes]:
        """Write the new index; of a database, also what came or went meanwhile."""
        source, ids, sample = self.source, self.dataset.target_ids, done.sample
        network, known = done.learned.corrector, sample.known()
        if join is not None:
            network = Joined(network, join)
            known = Known(known.rows, network.join(sample.stale, known.fresh))
        made_by = fingerprint(self.model, self.dataset.targets)
        path, seconds = write_index(
            source, network, known, output, made_by, self.model.device, self.settings.engine
        )
        rows, since = known.rows, Changes()
        if isinstance(source, StoreVectors):

            def correct(stale: Float[ndarray, "n d"]) -> Float[ndarray, "n e"]:
                with torch.no_grad():
                    return network.cpu()(torch.from_numpy(stale)).numpy()

            since = Changes(*on_first(lambda: source.follow(correct)))
            ids, fresh = source.store.ids, ids.take(rows.numpy())
            place = ids.find(fresh)
            rows = torch.from_numpy(place[place >= 0])
        on_first(lambda: write_rows(output, ids, rows))
        if join is not None:
            on_first(lambda: join.save(output))
        else:  # one of an earlier run would say how to search an index that is gone
            on_first(lambda: (output / JOINED).unlink(missing_ok=True))
        return path, seconds, since

    def _fuse(self, done: Fitted, stages: Stages) -> Fused | None:
        """Weigh the ways of serving, if queries can be asked of the old index, too."""
        if self.old_model is None:
            return None
        fusing = Fusing(self.source, self.dataset, self.model, self.old_model, self.settings)
        return fusing.run(done, self.queries, stages)

    def _results(
        self, done: Fitted, seconds: dict[str, float], path: Path, fused: Fused | None
    ) -> dict[str, Any]:
        """Return what results.json holds."""
        source, sample, queries = self.source, done.sample, self.queries
        overlap, count = done.found[f"overlap@{self.settings.k}"], len(sample.rows)
        vectors = {"format": source.format, "rows": source.rows, "width": source.dim}
        vectors |= {"new_width": sample.fresh.shape[1], "dtype": source.dtype.name}
        asking = {"split": queries.split, "validate": len(queries.check)}
        cost = {"targets_embedded": count, "held_out": int(sample.held_out.sum())}
        cost["relevant_embedded"] = 0 if fused is None else fused.relevant
        judged = verdict(overlap, source.rows, count, **seconds)
        return {
            "data": self.dataset.counts,
            "vectors": vectors | {"written": path.name},
            "corrector": done.learned.about,
            "queries": asking | {"guide": len(queries.guide)},
            "cost": cost | {"re_embedded": done.re_embedded, "seconds": seconds},
            "validation": as_json(done.found),
            "curve": done.curve,
            "verdict": judged | ({} if fused is None else fused.verdict),
        }

    def _made_of(self) -> dict[str, Any]:
        """Describe what a migration depends on: vectors, texts, settings, the model."""
        settings = {
            f.name: getattr(self.settings, f.name)
            for f in fields(MigrateSettings)
            if not f.metadata.get("changeable")
        }
        vectors = [sha256(path) for path in files_of(self.source.path)]
        if not vectors:  # of a database some vectors, which a swap would change
            vectors = [self.source.some_digest()] if isinstance(self.source, StoreVectors) else []
        now = dict(self.dataset.identity) | {"vectors": digest(vectors), "format": FORMAT}
        now |= {"ids": "" if self.source.ids is None else self.source.ids.digest}
        return now | {"model": hash_weights(self.model.state_dict()), "settings": str(settings)}


def _save_adapter(adapter: QueryAdapter, folder: Path) -> None:
    with atomic_folder(folder) as made:
        adapter.save(made)
