"""`unstale evaluate`."""

import time
from typing import Any

from unstale.cli import options
from unstale.cli.encoder import open_encoder
from unstale.cli.folders import open_output, save_config
from unstale.data.load import load_dataset
from unstale.encoders.tokenise import target_tokens
from unstale.evaluation.evaluator import Evaluator
from unstale.integrity import seal
from unstale.report.results import RESULTS, write_results
from unstale.report.table import print_runs


def run(chosen: options.Evaluate) -> None:
    """Measure a model as it is."""
    began = time.perf_counter()
    needs = (chosen.data, chosen.model)
    open_output(chosen.output, overwrite=chosen.overwrite, dry=True, needs=needs)
    dataset = load_dataset(chosen.data)
    dataset.split(chosen.split)
    model = open_encoder(chosen)
    output = open_output(chosen.output, overwrite=chosen.overwrite)
    save_config(output, "evaluate", chosen)
    tokens = target_tokens(model, dataset)
    evaluate = Evaluator(dataset, chosen.split, tokens)
    metrics = evaluate(model)
    evaluate.save(output, "unstale")
    seconds = time.perf_counter() - began
    result: dict[str, Any] = {
        "strategy": "none",
        "seed": None,
        "steps": 0,
        "split": chosen.split,
        "model": chosen.model,
        "initial_metrics": metrics,
        "metrics": metrics,
        "targets_reembedded": 0,
        "targets_sampled": 0,
        "targets_probed": 0,
        "targets_trained": 0,
        "seconds": {"total": seconds, "embedding": 0.0, "mining": 0.0, "evaluation": seconds},
        "steps_per_second": None,
        "truncated_targets": tokens.truncated,
        "freshness": [],
    }
    write_results(output, dataset.counts, [result])
    seal(output)
    print_runs([result], title=f"{dataset.name}, {chosen.split} split, in percent")
    print(f"results: {output / RESULTS}")
