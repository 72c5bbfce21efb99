"""`unstale evaluate`."""

import time

from unstale.cli.options import EvaluateFlags
from unstale.cli.output import run_folder
from unstale.cli.read import open_encoder, read_data
from unstale.data.holdout import hold_out
from unstale.distributed import first_alone, rank, start
from unstale.encoders.tokenise import target_tokens
from unstale.evaluation.evaluator import Evaluator, splits_to_measure
from unstale.report.table import print_runs, title_of
from unstale.results import RESULTS, RunResult
from unstale.shown import say


def run(chosen: EvaluateFlags) -> None:
    """Measure a model as it is, and write its ranking."""
    start(chosen.device)
    first = rank() == 0
    with run_folder("evaluate", chosen) as folder:
        dataset = read_data(chosen.data, strict=chosen.strict)
        dataset = hold_out(dataset, chosen.split, chosen.holdout, progress=first)
        split = splits_to_measure(dataset, chosen.split)[0]
        model = open_encoder(chosen)
        output = folder.begin()
        began = time.perf_counter()
        with first_alone():
            tokens = target_tokens(model, dataset, progress=first)
        evaluate = Evaluator(dataset, chosen.split, tokens, progress=first)
        metrics = evaluate(model)
        if first:
            evaluate.save(output, "unstale")
        seconds = time.perf_counter() - began
        result = RunResult(
            strategy="none",
            model=chosen.model,
            split=split,
            initial_metrics=metrics,
            metrics=metrics,
            targets_trained=0,
            targets_reembedded=0,
            targets_sampled=0,
            targets_probed=0,
            seconds={"total": seconds, "embedding": 0.0, "mining": 0.0, "evaluation": seconds},
            truncated_targets=tokens.truncated,
        )
        folder.finish(dataset.counts, [result])
    print_runs([result], title=title_of(dataset, chosen.split))
    say(f"results: {output / RESULTS}")
