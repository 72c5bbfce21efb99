"""`unstale correct`."""

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from unstale.buffer.fingerprint import fingerprint
from unstale.cli import options_correct
from unstale.cli.correct_flags import check_flags, re_embed_count, sampled, with_run
from unstale.cli.correct_queries import ask, part_queries
from unstale.cli.encoder import open_encoder
from unstale.cli.folders import is_finished, open_output, place_of, save_config
from unstale.cli.run_folder import run_corrector
from unstale.corrector.network import Corrector
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.encoders.embed import is_cosine
from unstale.errors import InputError
from unstale.files import atomic_file, write_json
from unstale.integrity import seal
from unstale.migrate.embed import Stages
from unstale.migrate.faiss_source import FaissSource
from unstale.migrate.index import write_index
from unstale.migrate.interval import as_json
from unstale.migrate.job import draw_sample, embed_more, learn_and_validate, validate
from unstale.migrate.learn import Learned
from unstale.migrate.sample import sample_size
from unstale.migrate.source import Source
from unstale.migrate.vectors import check_texts, check_values, open_vectors
from unstale.migrate.verdict import curve_table, verdict
from unstale.report.migration import curve_svg
from unstale.results import RESULTS

_LOG = logging.getLogger(__name__)
CURVE = "curve.svg"
_METRICS = {0: "inner product", 1: "L2 distance"}  # of faiss


def run(chosen: options_correct.Correct) -> None:
    """Check everything, then sample, embed, fit, validate, correct, and judge."""
    chosen = with_run(chosen)
    if is_finished("correct", chosen):
        return
    _open(chosen, dry=True)
    if not chosen.vectors:
        raise InputError("--vectors is required: the old vectors, or --run for a training run")
    source = open_vectors(Path(chosen.vectors))
    dataset = load_dataset(chosen.data, judged=False)
    check_texts(source, dataset)
    size = sampled(chosen, source)  # None: as many as the seconds allow
    wanted = re_embed_count(chosen, source.rows, size)
    check_flags(chosen, source)
    taken = run_corrector(chosen.run, source.dim) if chosen.run else None
    parted = part_queries(chosen, dataset)
    check_values(source)
    model = open_encoder(chosen)
    if isinstance(source, FaissSource):
        _check_faiss(source, model, chosen)
    if size is None and not chosen.resume:  # what is too little is refused before it is spent
        size = _affordable(chosen.seconds or 0.0, source, dataset, model)
    output = _open(chosen)
    save_config(output, "correct", chosen)

    asked = ask(model, dataset, parted)
    embed = Stages(model, dataset, output / "embedded")
    sample = draw_sample(
        source, lambda: size or _affordable(chosen.seconds or 0.0, source, dataset, model), embed,
        sampling=chosen.sampling, queries=asked.guide, seed=chosen.seed,
    )  # fmt: skip
    drawn = len(sample.rows)
    began = time.perf_counter()
    keep_fresh = chosen.keep_fresh and not chosen.run  # a run's h may be off by a common vector
    settings: dict[str, Any] = {
        "method": chosen.method, "hidden": chosen.corrector_hidden, "k": chosen.k,
        "scale": chosen.scale, "seed": chosen.seed, "keep_fresh": keep_fresh,
        "queries": asked.guide if chosen.loss == "ce" else None,
    }  # fmt: skip
    if taken is not None:  # nothing is fitted to the sample, so all of it may judge
        sample = replace(sample, held_out=np.ones(drawn, bool))
        learned = _from_corrector(taken)
        curve: list[dict[str, Any]] = []
        found = validate(source, learned, sample, asked, k=chosen.k, keep_fresh=False)
    else:
        learned, found, curve = learn_and_validate(source, sample, asked, **settings)
    fitting = time.perf_counter() - began
    if wanted:
        sample = embed_more(
            source, sample, learned, embed, "re-embedded", wanted, chosen.re_embed_by,
            asked.guide, chosen.seed,
        )  # fmt: skip
        began = time.perf_counter()  # what was paid for teaches, too
        learned, found, _ = learn_and_validate(source, sample, asked, curve=False, **settings)
        fitting += time.perf_counter() - began
    re_embedded = len(sample.rows) - drawn
    if re_embedded:
        curve.append({"embedded": len(sample.rows), "re_embedded": re_embedded} | as_json(found))
    known = sample.known() if keep_fresh else sample.known().none
    path, correcting = write_index(
        source, learned, known, output, fingerprint(model, dataset.targets)
    )
    judgement = verdict(
        found[f"overlap@{chosen.k}"], targets=source.rows, embedded=len(sample.rows),
        embedding=sample.seconds, fitting=fitting, correcting=correcting,
    )  # fmt: skip
    results: dict[str, Any] = {
        "data": dataset.counts,
        "vectors": {"format": source.format, "rows": source.rows, "width": source.dim}
        | {"new_width": sample.fresh.shape[1], "dtype": source.dtype.name, "written": path.name},
        "corrector": learned.about,
        "queries": {"split": parted.split, "validate": len(parted.check)}
        | {"guide": len(parted.guide)},
        "cost": {"targets_embedded": len(sample.rows), "held_out": int(sample.held_out.sum())}
        | {"re_embedded": re_embedded, "fresh_kept": len(known.rows)}
        | {"seconds": {"embedding": sample.seconds, "fitting": fitting, "correcting": correcting}},
        "validation": as_json(found),
        "curve": curve,
        "verdict": judgement,
    }
    write_json(output / "manifest.json", {"from": Path(chosen.vectors).name} | results["vectors"])
    _write(output, results)
    seal(output)
    for name, interval in found.items():
        print(f"{name:>12}: {interval.value:.3f}  ({interval.low:.3f} to {interval.high:.3f})")
    if curve:
        print(curve_table(curve, source.rows, sample.seconds / len(sample.rows)))
    print(f"{judgement['text']}\nvectors: {path}\nresults: {output / RESULTS}")


def _write(output: Path, results: dict[str, Any]) -> None:
    write_json(output / RESULTS, results)
    if results["curve"]:
        with atomic_file(output / CURVE) as temporary:
            temporary.write_text(curve_svg(results["curve"]), "utf-8")


def _open(chosen: options_correct.Correct, *, dry: bool = False) -> Path:
    reads = (chosen.vectors, chosen.data, chosen.model, chosen.run)
    for read in filter(None, reads[:2]):
        if Path(chosen.output).resolve().is_relative_to(place_of(read).resolve()):
            raise InputError(f"--output {chosen.output} lies in {read}, which is only read")
    return open_output(
        chosen.output, overwrite=chosen.overwrite, resume=chosen.resume, dry=dry, needs=reads
    )


def _check_faiss(
    source: FaissSource, model: SentenceTransformer, chosen: options_correct.Correct
) -> None:
    """Refuse an index that would rank new vectors by another rule than their encoder does."""
    unit = is_cosine(model) and not chosen.run  # a run's h leaves the lengths free
    if source.metric not in ((0, 1) if unit else (0,)):
        metric = _METRICS.get(source.metric, f"the metric {source.metric} of faiss")
        rule = "not by inner product, as the corrected vectors must be; save them as .npy"
        raise InputError(f"{source.path} ranks by {metric}, {rule}")
    if not source.kind.startswith("IndexFlat"):
        _LOG.warning(
            "%s is an %s; the new index will be flat: its structure is of the old vectors",
            source.path, source.kind,
        )  # fmt: skip
    if "Flat" not in source.kind:
        _LOG.warning(
            "an %s keeps its vectors rounded: the corrector starts from what is left of them",
            source.kind,
        )


def _affordable(
    seconds: float, source: Source, dataset: RetrievalDataset, model: SentenceTransformer
) -> int:
    """Return how many targets can be embedded in some seconds, by timing a few."""
    rows = np.linspace(0, source.rows - 1, min(32, source.rows)).astype(np.int64)
    began = time.perf_counter()
    model.encode_document(dataset.targets.take(rows))
    each = (time.perf_counter() - began) / len(rows)
    count = int(min(source.rows, seconds / each))
    try:
        return sample_size(source.rows, source.dim, None, count)
    except InputError as error:
        raise InputError(f"--seconds {seconds} at {each:.2g} s a target: {error}") from None


def _from_corrector(corrector: Corrector) -> Learned:
    hidden = [layer.out_features for layer in corrector.linear[:-1]]
    return Learned(corrector, {"method": "run", "hidden": hidden})
