"""`unstale demo`: the whole idea on one screen."""

import shutil
from dataclasses import replace
from pathlib import Path

from unstale.cli import options
from unstale.cli.config import written_by
from unstale.cli.flags import flag_values
from unstale.cli.output import run_folder
from unstale.cli.read import open_encoder
from unstale.cli.report import recipe as shown
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.declare import taken_from
from unstale.files import atomic_folder
from unstale.report.page import write_page
from unstale.report.table import print_runs, title_of
from unstale.results import RESULTS, RunResult
from unstale.shown import say
from unstale.training.job import train
from unstale.training.settings import TrainSettings
from unstale.written import remove_written


def run(chosen: options.DemoFlags) -> None:
    """Train stale and corrected from the same start, and show what the difference is worth."""
    earlier = written_by(Path(chosen.output), "demo")  # that is replaced, and nothing else
    few = max(1, chosen.steps // 3)  # log lines and readings enough to see it move
    recipe = options.TrainFlags(
        data="docstrings",
        strategy="corrected",  # beside stale
        output=chosen.output,
        overwrite=earlier,
        steps=chosen.steps,
        seed=chosen.seed,
        batch_size=64,
        meter_steps=few,
        guard=False,  # both rows are of the last step
        trainer={"logging_steps": few},
    )
    with run_folder("demo", recipe) as folder:
        dataset = load_dataset(recipe.data)
        output = folder.begin()
        say(f"{dataset.name}: {len(dataset.targets):,} functions, found by what they do")
        runs = [_train(dataset, strategy, recipe, output) for strategy in ("stale", "corrected")]
        with atomic_folder(output / "model") as model:
            shutil.copytree(output / "corrected" / "model", model, dirs_exist_ok=True)
        remove_written(output / "corrected" / "model")
        folder.finish(dataset.counts, runs)
    print_runs(runs, title=title_of(dataset, recipe.eval_split))
    say(meaning(*runs))
    say(f"\nresults: {output / RESULTS}")
    say(f"report:  open {write_page(output, shown(flag_values(recipe)))}")
    say(f'try:     unstale search "parse an ISO date" --run {output}')


def _train(
    dataset: RetrievalDataset, strategy: str, recipe: options.TrainFlags, output: Path
) -> RunResult:
    """Train with one strategy; the corpus is embedded once, for both."""
    say(f"\ntraining with {strategy} negatives")
    buffer = output / "stale" / "buffer"
    own = replace(recipe, strategy=strategy, buffer=str(buffer) if buffer.exists() else None)
    return train(dataset, open_encoder(own), output / strategy, taken_from(TrainSettings, own))


def meaning(stale: RunResult, corrected: RunResult) -> str:
    """Say in a sentence what the two rows mean, whichever way they came out."""
    gain = 100 * (corrected.metrics["recall@10"] - stale.metrics["recall@10"])
    seen = 100 * corrected.freshness[-1]["overlap_corrected"]
    blind = 100 * stale.freshness[-1]["overlap_stale"]  # as in the table: each run has a cache
    verb = "gained" if gain >= 0 else "lost"
    return (
        f"Corrected negatives {verb} {abs(gain):.1f} points of recall@10 over stale ones with no "
        f"target re-embedded: at the end the corrected run saw {seen:.0f}% of the true nearest "
        f"targets through its corrector, the stale run {blind:.0f}% in its cache."
    )
