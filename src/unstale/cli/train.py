"""`unstale train`."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.fingerprint import fingerprint
from unstale.cli import options
from unstale.cli.encoder import open_encoder
from unstale.cli.folders import open_output, save_config
from unstale.data.dataset import RetrievalDataset
from unstale.data.load import load_dataset
from unstale.errors import InputError
from unstale.report.results import RESULTS, write_results
from unstale.report.table import print_runs
from unstale.training.job import train
from unstale.training.strategies import find_strategy


def run(chosen: options.Train) -> None:
    """Check everything, train, and write the results."""
    find_strategy(chosen.strategy)
    _check_trainer(chosen.trainer)
    open_output(chosen.output, overwrite=chosen.overwrite, resume=chosen.resume, dry=True)
    dataset = load_dataset(chosen.data)
    for split in ("train", chosen.eval_split):
        dataset.split(split)
    model = open_encoder(chosen, dropout=chosen.dropout)
    if chosen.buffer is not None:  # the cheap check first: training would find out too, but later
        TargetBuffer.open(Path(chosen.buffer), fingerprint(model, dataset.targets))
    output = open_output(chosen.output, overwrite=chosen.overwrite, resume=chosen.resume)
    save_config(output, "train", chosen)
    result = train_once(dataset, model, output, chosen)
    write_results(output, dataset.counts, [result])
    print_runs([result], title=f"{dataset.name}, {chosen.eval_split} split, in percent")
    print(f"model:   {output / 'model'}\nresults: {output / RESULTS}")


def train_once(
    dataset: RetrievalDataset, model: SentenceTransformer, output: Path, chosen: options.Train
) -> dict[str, Any]:
    """Run one training as the flags say."""
    hidden = chosen.corrector_hidden
    widths = [hidden] if isinstance(hidden, int) else hidden
    rate = 1e-3 if chosen.model == "tiny" else 2e-5
    return train(
        dataset,
        model,
        output,
        strategy=chosen.strategy,
        steps=chosen.steps,
        batch_size=chosen.batch_size,
        hard_negatives=chosen.hard_negatives,
        uniform_negatives=chosen.uniform_negatives,
        share_candidates=chosen.share_candidates,
        sampling=chosen.sampling,
        seed=chosen.seed,
        scale=chosen.scale,
        learning_rate=rate if chosen.learning_rate is None else chosen.learning_rate,
        corrector_hidden=tuple(w for w in widths if w),
        corrector_lr=chosen.corrector_lr,
        corrector_weight=chosen.corrector_weight,
        corrector_loss=chosen.corrector_loss,
        buffer=Path(chosen.buffer) if chosen.buffer else None,
        dtype=chosen.dtype,
        eval_split=chosen.eval_split,
        meter_steps=chosen.meter_steps,
        probe_queries=chosen.probe_queries,
        probe_targets=chosen.probe_targets,
        save_steps=chosen.save_steps,
        resume=chosen.resume,
        trainer=chosen.trainer,
    )


def _check_trainer(extra: dict[str, Any]) -> None:
    known = {f.name for f in fields(SentenceTransformerTrainingArguments)}
    if unknown := sorted(set(extra) - known):
        name = SentenceTransformerTrainingArguments.__name__
        raise InputError(f"--trainer: {name} has no {', '.join(unknown)}")
