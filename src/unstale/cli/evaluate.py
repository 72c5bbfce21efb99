"""`unstale evaluate`: one model, one dataset or several."""

import re
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from sentence_transformers import SentenceTransformer

from unstale.cli.encoder import open_encoder
from unstale.cli.options import EvaluateFlags
from unstale.cli.output import run_folder
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.evaluation.evaluator import Evaluator
from unstale.report.table import print_runs
from unstale.results import RESULTS, RunResult


def run(chosen: EvaluateFlags) -> None:
    """Measure a model as it is."""
    with run_folder("evaluate", chosen) as folder:
        datasets = [load_dataset(name) for name in chosen.data]
        names = _folders(datasets)
        for dataset in datasets:
            dataset.split(chosen.split)
        model = open_encoder(chosen)
        output = folder.begin()
        runs = [
            _measure(dataset, chosen, model, output, name)
            for dataset, name in zip(datasets, names, strict=True)
        ]
        average = {m: fmean(run.metrics[m] for run in runs) for m in runs[0].metrics}
        if len(runs) == 1:
            shown, title = runs, datasets[0].name
            folder.finish(datasets[0].counts, runs)
        else:
            seconds = {"total": sum(run.seconds["total"] for run in runs)}
            mean = replace(runs[0], strategy="average", metrics=average, seconds=seconds)
            shown, title = [*runs, mean], f"{len(runs)} datasets"
            data = {"name": ", ".join(dataset.name for dataset in datasets)}
            folder.finish(data, runs, average=average)
    print_runs(shown, title=f"{title}, {chosen.split} split, in percent")
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
    dataset: RetrievalDataset,
    chosen: EvaluateFlags,
    model: SentenceTransformer,
    output: Path,
    name: str,
) -> RunResult:
    """Measure on one dataset, and write its ranking; of several, into a folder of this name."""
    began = time.perf_counter()
    tokens = target_tokens(model, dataset)
    evaluate = Evaluator(dataset, chosen.split, tokens)
    metrics = evaluate(model)
    evaluate.save(output / name, "unstale")
    seconds = time.perf_counter() - began
    return RunResult(
        strategy=dataset.name if name else "none",
        model=chosen.model,
        data=dataset.counts if name else None,
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
