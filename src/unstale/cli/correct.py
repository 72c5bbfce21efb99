"""`unstale correct`."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from unstale.buffer.fingerprint import fingerprint
from unstale.cli import options_correct
from unstale.cli.correct_queries import ask, part_queries
from unstale.cli.encoder import open_encoder
from unstale.cli.folders import is_finished, open_output, save_config
from unstale.cli.run_folder import run_corrector, run_parts
from unstale.corrector.network import Corrector
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.errors import InputError
from unstale.files import atomic_file, write_json
from unstale.integrity import seal
from unstale.migrate.embed import Stages
from unstale.migrate.index import write_index
from unstale.migrate.job import draw_sample, embed_more, learn_and_validate, validate
from unstale.migrate.learn import Learned
from unstale.migrate.sample import sample_size
from unstale.migrate.validate import as_json
from unstale.migrate.vectors import BufferSource, Source, check_values, open_vectors
from unstale.migrate.verdict import curve_table, verdict
from unstale.report.migration import curve_svg
from unstale.report.results import RESULTS

CURVE = "curve.svg"


def run(chosen: options_correct.Correct) -> None:
    """Check everything, then sample, embed, fit, validate, correct, and judge."""
    chosen = _from_run(chosen) if chosen.run else chosen
    if is_finished("correct", chosen):
        return
    _open(chosen, dry=True)
    if not chosen.vectors:
        raise InputError("--vectors is required: the old vectors, or --run for a training run")
    source = open_vectors(Path(chosen.vectors))
    dataset = load_dataset(chosen.data, judged=False)
    _check_texts(source, dataset)
    wanted = _re_embedded(chosen, source.rows)
    if chosen.seconds is not None and not chosen.seconds > 0:
        raise InputError(f"--seconds must be above 0, got {chosen.seconds}")
    if chosen.seconds is None:  # refuse before any work
        size = sample_size(source.rows, source.dim, *_share(chosen))
        if size + wanted > source.rows:
            rule = f"a sample of {size} and {wanted} more"
            raise InputError(f"--re-embed: {source.rows} targets cannot make {rule}")
    parted = part_queries(chosen, dataset)
    check_values(source)
    model = open_encoder(chosen)
    output = _open(chosen)
    save_config(output, "correct", chosen)

    asked = ask(model, dataset, parted)
    embed = Stages(model, dataset, output / "embedded")
    sample = draw_sample(
        source, lambda: _size(chosen, source, dataset, model), embed,
        sampling=chosen.sampling, queries=asked.guide, seed=chosen.seed,
    )  # fmt: skip
    sampled = len(sample.rows)
    began = time.perf_counter()
    keep_fresh = chosen.keep_fresh and not chosen.run  # a run's h may be off by a common vector
    settings: dict[str, Any] = {
        "method": chosen.method, "hidden": chosen.corrector_hidden, "k": chosen.k,
        "scale": chosen.scale, "seed": chosen.seed, "keep_fresh": keep_fresh,
        "queries": asked.guide if chosen.loss == "ce" else None,
    }  # fmt: skip
    if chosen.run:  # nothing is fitted to the sample, so all of it may judge
        sample = replace(sample, held_out=np.ones(sampled, bool))
        learned = _from_corrector(run_corrector(chosen.run, source.dim))
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
    re_embedded = len(sample.rows) - sampled
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
    return open_output(
        chosen.output, overwrite=chosen.overwrite, resume=chosen.resume, dry=dry, needs=reads
    )


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


def _re_embedded(chosen: options_correct.Correct, rows: int) -> int:
    """Return how many targets to embed beyond the sample, or say why that cannot be."""
    many = chosen.re_embed
    if not 0 <= many <= rows or (many >= 1 and many != int(many)):
        rule = f"a part of the targets below 1 or a number up to {rows}"
        raise InputError(f"--re-embed must be {rule}, got {many}")
    if chosen.run and chosen.sampling != "uniform":
        raise InputError(f"--sampling {chosen.sampling}: with --run the sample only judges")
    if many and (chosen.run or not chosen.keep_fresh):
        flag = "--run" if chosen.run else "--no-keep-fresh"
        raise InputError(f"--re-embed puts fresh vectors beside corrected ones, {flag} does not")
    return round(many * rows) if many < 1 else int(many)


def _share(chosen: options_correct.Correct) -> tuple[float | None, int | None]:
    return None if chosen.count else chosen.fraction, chosen.count


def _size(
    chosen: options_correct.Correct,
    source: Source,
    dataset: RetrievalDataset,
    model: SentenceTransformer,
) -> int:
    """Return how many targets to sample; time a few if it is seconds that are given."""
    if chosen.seconds is None:
        return sample_size(source.rows, source.dim, *_share(chosen))
    rows = np.linspace(0, source.rows - 1, min(32, source.rows)).astype(np.int64)
    began = time.perf_counter()
    model.encode_document(dataset.targets.take(rows))
    each = (time.perf_counter() - began) / len(rows)
    count = min(source.rows, int(chosen.seconds / each))
    return sample_size(source.rows, source.dim, None, max(1, count))


def _from_run(chosen: options_correct.Correct) -> options_correct.Correct:
    """Take what a training run knows: its data, its trained encoder and its stale buffer."""
    parts = run_parts(chosen.run or "")
    vectors = chosen.vectors or parts.buffer
    return replace(chosen, data=parts.data, model=parts.model, vectors=vectors)


def _from_corrector(corrector: Corrector) -> Learned:
    hidden = [layer.out_features for layer in corrector.linear[:-1]]
    return Learned(corrector, {"method": "run", "hidden": hidden})
