"""`unstale evaluate`: one model, one dataset or several."""

import re
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from sentence_transformers import SentenceTransformer

from unstale.cli import options
from unstale.cli.encoder import open_encoder
from unstale.cli.folders import open_output, save_config
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.evaluation.evaluator import Evaluator
from unstale.integrity import seal
from unstale.report.table import print_runs
from unstale.results import RESULTS, RunResult, write_results


def run(chosen: options.Evaluate) -> None:
    """Measure a model as it is."""
    needs = (*chosen.data, chosen.model)
    open_output(chosen.output, overwrite=chosen.overwrite, dry=True, needs=needs)
    datasets = [load_dataset(name) for name in chosen.data]
    folders = _folders(datasets)
    for dataset in datasets:
        dataset.split(chosen.split)
    model = open_encoder(chosen)
    output = open_output(chosen.output, overwrite=chosen.overwrite)
    save_config(output, "evaluate", chosen)
    runs = []
    for dataset, folder in zip(datasets, folders, strict=True):
        result = _measure(dataset, chosen, model, output / folder)
        if folder:
            result = replace(result, strategy=dataset.name, data=dataset.counts)
        runs.append(result)
    title = f"{chosen.split} split, in percent"
    if len(runs) == 1:
        write_results(output, datasets[0].counts, runs)
        print_runs(runs, title=f"{datasets[0].name}, {title}")
    else:
        average = {m: fmean(r.metrics[m] for r in runs) for m in runs[0].metrics}
        names = {"name": ", ".join(dataset.name for dataset in datasets)}
        write_results(output, names, runs, average=average)
        seconds = {"total": sum(r.seconds["total"] for r in runs)}
        mean = replace(runs[0], strategy="average", metrics=average, seconds=seconds)
        print_runs([*runs, mean], title=f"{len(runs)} datasets, {title}")
    seal(output)
    print(f"results: {output / RESULTS}")


def _folders(datasets: list[RetrievalDataset]) -> list[str]:
    """Name a folder for the ranking of each of several datasets; one needs none."""
    if len(datasets) == 1:
        return [""]
    names = [re.sub(r"[^\w.-]+", "-", dataset.name).strip(".-") for dataset in datasets]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(f"--data names {', '.join(sorted(twice))} twice")
    return names


def _measure(
    dataset: RetrievalDataset, chosen: options.Evaluate, model: SentenceTransformer, folder: Path
) -> RunResult:
    """Measure on one dataset, and write its ranking."""
    began = time.perf_counter()
    tokens = target_tokens(model, dataset)
    evaluate = Evaluator(dataset, chosen.split, tokens)
    metrics = evaluate(model)
    evaluate.save(folder, "unstale")
    seconds = time.perf_counter() - began
    return RunResult(
        strategy="none",
        model=chosen.model,
        split=chosen.split,
        initial_metrics=metrics,
        metrics=metrics,
        targets_trained=0,
        targets_reembedded=0,
        targets_sampled=0,
        targets_probed=0,
        seconds={"total": seconds, "embedding": 0.0, "mining": 0.0, "evaluation": seconds},
        truncated_targets=tokens.truncated,
    )
