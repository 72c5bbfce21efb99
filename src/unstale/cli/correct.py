"""`unstale correct`."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.buffer.embed import embed_corpus
from unstale.buffer.fingerprint import fingerprint
from unstale.cli import options_correct
from unstale.cli.encoder import open_encoder
from unstale.cli.folders import is_finished, open_output, save_config
from unstale.cli.run_folder import run_corrector, run_parts
from unstale.corrector.network import Corrector
from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.data.load import load_dataset
from unstale.encoders.embed import embed_queries
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.evaluation.metrics import measure
from unstale.files import write_json
from unstale.integrity import seal
from unstale.migrate.job import (
    Asked,
    corrected_chunks,
    draw_sample,
    learn_and_validate,
    validate,
    write_corrected,
)
from unstale.migrate.learn import Learned
from unstale.migrate.sample import sample_size
from unstale.migrate.validate import Interval, as_json, mean_interval
from unstale.migrate.vectors import BufferSource, Source, check_values, open_vectors
from unstale.migrate.verdict import verdict
from unstale.report.results import RESULTS
from unstale.search.exact import TopK, merge
from unstale.search.linear import linear_layers


def run(chosen: options_correct.Correct) -> None:
    """Check everything, then sample, embed, fit, validate, correct, and judge."""
    chosen = _from_run(chosen) if chosen.run else chosen
    if is_finished("correct", chosen):
        return
    open_output(chosen.output, overwrite=chosen.overwrite, resume=chosen.resume, dry=True)
    if not chosen.vectors:
        raise InputError("--vectors is required: the old vectors, or --run for a training run")
    source = open_vectors(Path(chosen.vectors))
    dataset = load_dataset(chosen.data)
    _check_texts(source, dataset)
    check_values(source)
    if chosen.seconds is None:
        fraction = None if chosen.count else chosen.fraction
        sample_size(source.rows, source.dim, fraction, chosen.count)  # refuse before any work
    model = open_encoder(chosen)
    output = open_output(chosen.output, overwrite=chosen.overwrite, resume=chosen.resume)
    save_config(output, "correct", chosen)

    asked, judged = _queries(chosen, dataset, model)
    fixed = _from_corrector(run_corrector(chosen.run, source.dim)) if chosen.run else None
    keep_fresh = chosen.keep_fresh and fixed is None  # a run's h may be off by a common vector

    def embed(rows: Int[ndarray, " n"]) -> Float[Tensor, "n e"]:
        texts = Texts.of(dataset.targets.take(rows))
        some = replace(dataset, targets=texts, target_ids=Texts.of(dataset.target_ids.take(rows)))
        buffer, _ = embed_corpus(
            model, target_tokens(model, some, progress=False), output / "sample",
            fingerprint(model, texts), shard_rows=1024,
        )  # fmt: skip
        return buffer[torch.arange(len(rows))]

    count = chosen.count
    if chosen.seconds is not None:
        count = _affordable(chosen.seconds, source, dataset, model)
    size = sample_size(source.rows, source.dim, None if count else chosen.fraction, count)
    sample = draw_sample(source, size, embed, sampling=chosen.sampling, seed=chosen.seed)
    fitting = time.perf_counter()
    if fixed is None:
        learned, found, curve = learn_and_validate(
            source, sample, asked, method=chosen.method, hidden=chosen.corrector_hidden,
            k=chosen.k, keep_fresh=keep_fresh, scale=chosen.scale, seed=chosen.seed,
        )  # fmt: skip
    else:  # nothing was fitted to the sample, so all of it may judge
        sample = replace(sample, held_out=np.ones(len(sample.rows), bool))
        learned, curve = fixed, []
        found = validate(source, learned, sample, asked, k=chosen.k, keep_fresh=False)
    if asked.check is not None:
        kept = len(sample.rows) if keep_fresh else 0
        pieces = corrected_chunks(
            source, learned.corrector, sample.rows[:kept], sample.fresh[:kept]
        )
        found |= _recall(judged, asked.check, pieces)
    fitting = time.perf_counter() - fitting
    path, correcting = write_corrected(
        source, learned, sample, output, fingerprint(model, dataset.targets), keep_fresh=keep_fresh
    )
    overlap = found[f"overlap@{chosen.k}"]
    judgement = verdict(
        overlap, targets=source.rows, embedded=len(sample.rows), embedding=sample.seconds,
        fitting=fitting, correcting=correcting,
    )  # fmt: skip
    results: dict[str, Any] = {
        "data": dataset.counts,
        "vectors": {"format": source.format, "rows": source.rows, "width": source.dim}
        | {"new_width": sample.fresh.shape[1], "dtype": source.dtype.name, "written": path.name},
        "corrector": learned.about,
        "cost": {"targets_embedded": len(sample.rows), "held_out": int(sample.held_out.sum())}
        | {"fresh_kept": len(sample.rows) * int(keep_fresh)}
        | {"seconds": {"embedding": sample.seconds, "fitting": fitting, "correcting": correcting}},
        "validation": as_json(found),
        "curve": curve,
        "verdict": judgement,
    }
    write_json(output / RESULTS, results)
    write_json(output / "manifest.json", {"from": Path(chosen.vectors).name} | results["vectors"])
    seal(output)
    for name, interval in found.items():
        print(f"{name:>12}: {interval.value:.3f}  ({interval.low:.3f} to {interval.high:.3f})")
    print(f"{judgement['text']}\nvectors: {path}\nresults: {output / RESULTS}")


def _check_texts(source: Source, dataset: RetrievalDataset) -> None:
    if source.rows != len(dataset.targets):
        counts = f"{source.rows} vectors, {dataset.name} {len(dataset.targets)} targets"
        raise InputError(f"{source.path} has {counts}: row by row they must be the same")
    if isinstance(source, BufferSource):
        made_of = source.manifest["fingerprint"].get("texts")
        if made_of != dataset.targets.digest:
            raise InputError(
                f"the buffer {source.path} was made of other texts than {dataset.name}"
            )


@dataclass(frozen=True)
class _Judged:
    """Queries with known answers."""

    qrels: Qrels
    rows: Int[ndarray, " q"]


def _queries(
    chosen: options_correct.Correct, dataset: RetrievalDataset, model: SentenceTransformer
) -> tuple[Asked, _Judged]:
    """Embed the queries: those of one split judge, those of the others teach."""
    split = chosen.split if chosen.split in dataset.qrels else next(iter(dataset.qrels))
    generator = np.random.default_rng(chosen.seed)
    qrels = dataset.split(split)
    rows = np.sort(generator.permutation(qrels.query_rows)[: chosen.queries])
    check = embed_queries(model, dataset.queries.take(rows))
    others = [q.query_rows for name, q in dataset.qrels.items() if name != split]
    if not others or chosen.loss == "mse":
        return Asked(None, check), _Judged(qrels, rows)
    taught = np.setdiff1d(np.concatenate(others), rows)
    taught = np.sort(generator.permutation(taught)[: chosen.queries])
    fit = embed_queries(model, dataset.queries.take(taught)) if len(taught) else None
    return Asked(fit, check), _Judged(qrels, rows)


def _recall(
    judged: _Judged,
    queries: Float[Tensor, "q e"],
    pieces: Any,  # noqa: ANN401 - corrected_chunks
) -> dict[str, Interval]:
    """Measure recall of the corrected index itself: only the queries are a sample here."""
    best = TopK(torch.zeros(len(queries), 0), torch.zeros(len(queries), 0, dtype=torch.long))
    for start, vectors in pieces:
        best = merge(best, queries @ vectors.T, start, 10)
    return {"recall@10": mean_interval(measure(judged.qrels, judged.rows, best)["recall@10"])}


def _affordable(
    seconds: float, source: Source, dataset: RetrievalDataset, model: SentenceTransformer
) -> int:
    """Time a few targets, and return how many fit into the seconds."""
    if seconds <= 0:
        raise InputError(f"--seconds must be above 0, got {seconds}")
    rows = np.linspace(0, source.rows - 1, min(32, source.rows)).astype(np.int64)
    began = time.perf_counter()
    model.encode_document(dataset.targets.take(rows))
    each = (time.perf_counter() - began) / len(rows)
    return min(source.rows, int(seconds / each))


def _from_run(chosen: options_correct.Correct) -> options_correct.Correct:
    """Take what a training run knows: its data, its trained encoder and its stale buffer."""
    parts = run_parts(chosen.run or "")
    vectors = chosen.vectors or parts.buffer
    return replace(chosen, data=parts.data, model=parts.model, vectors=vectors)


def _from_corrector(corrector: Corrector) -> Learned:
    hidden = [layer.out_features for layer in linear_layers(corrector)[:-1]]
    return Learned(corrector, {"method": "run", "hidden": hidden})
