"""One training run, from a dataset and an encoder to a model folder and its results."""

from collections.abc import Sequence
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers import set_seed

from unstale import distributed
from unstale.buffer.embed import open_or_embed
from unstale.corrector.losses import LossName
from unstale.data.dataset import ByQuery, Positives, RetrievalDataset
from unstale.encoders.cross import CrossScores
from unstale.encoders.embed import is_cosine
from unstale.encoders.tokenise import target_tokens
from unstale.evaluation.evaluator import Evaluator
from unstale.evaluation.retrieve import fresh_chunks
from unstale.miners.corrected import worse_than_stale
from unstale.miners.filters import Filters
from unstale.search.auto import Mode
from unstale.training.algorithm1 import FreshNegativesLoss
from unstale.training.arguments import merged, trainer_arguments
from unstale.training.card import write_card
from unstale.training.checkpoints import go_on
from unstale.training.examples import MinedExamples
from unstale.training.failure import NotFiniteError, explain
from unstale.training.identity import identity
from unstale.training.meter import Meter
from unstale.training.recipe import Recipe, Sampling
from unstale.training.settings import check_settings, hidden_widths, negatives
from unstale.training.start import (
    default_batch,
    default_rate,
    fix_search,
    freeze_targets,
    hold,
    training_rows,
)
from unstale.training.stopwatch import Stopwatch
from unstale.training.strategies import build_miner, find_strategy
from unstale.training.trainer import FreshTrainer, miner_arguments
from unstale.training.weights import save_weights


def train(
    dataset: RetrievalDataset,
    model: SentenceTransformer,
    output: Path,
    *,
    strategy: str = "corrected-free",
    steps: int = 300,
    batch_size: int | None = None,
    hard_negatives: int | None = None,
    uniform_negatives: int | None = None,
    free_negatives: int | None = None,
    given_negatives: int = 0,
    share_candidates: bool = True,
    sampling: Sampling = "top-k",
    seed: int = 0,
    scale: float | None = None,
    learn_scale: bool = False,
    mini_batch_size: int = 0,
    matryoshka_dims: Sequence[int] = (),
    learning_rate: float | None = None,
    corrector_hidden: int | Sequence[int] = (768,),
    corrector_lr: float = 1e-3,
    corrector_weight: float = 10.0,
    corrector_loss: LossName = "ce",
    corrector_anchor: float = 1.0,
    memory: bool = True,
    refresh: str | int = 80,
    full_refreshes: int = 2,
    subset_size: int = 0,
    sample_size: int = 0,
    rank: int = 64,
    rerank_depth: int = 256,
    refresh_below: float = 0.9,
    fallback: bool = True,
    search: Mode = "auto",
    filters: Filters | None = None,
    cross_encoder: str | None = None,
    buffer: Path | None = None,
    dtype: str = "float32",
    mapped: bool = False,
    eval_split: str = "test",
    eval_steps: int = 0,
    meter_steps: int | None = None,
    probe_queries: int = 64,
    probe_targets: int = 512,
    save_steps: int = 0,
    keep_checkpoints: int = 2,
    resume: bool = False,
    trainer: dict[str, Any] | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Train an encoder in place, write `output/model` and return the run's results.

    Args:
        dataset: The corpus and its training pairs (split `train`).
        model: The encoder, at its start; trained in place.
        output: The run folder.
        strategy: How candidates are chosen; see `STRATEGIES`.
        steps: Optimizer steps.
        batch_size: Queries a step; by default 256 for static embeddings, otherwise 64.
        hard_negatives: Targets mined and encoded for each query; by default the strategy's number.
        uniform_negatives: Targets drawn uniformly and encoded for each query, likewise.
        free_negatives: Targets mined for each query and not encoded, likewise.
        given_negatives: Targets drawn for each query from the negatives that the data came with.
        share_candidates: Let all queries of a batch share their candidates.
        sampling: `top-k`, or `gumbel` to sample from the softmax.
        seed: Of data order, corrector and draws.
        scale: The paper's beta; by default 20 for cosines, 1 for dot products.
        learn_scale: Train the scale, too.
        mini_batch_size: Texts encoded at a time (GradCache); 0 for all at once.
        matryoshka_dims: Also train vectors of the first so many dimensions.
        learning_rate: Of the encoders; by default 1e-3 for static embeddings, otherwise 2e-5.
        corrector_hidden: Width of the corrector's hidden layer, or of several.
        corrector_lr: Learning rate of the corrector.
        corrector_weight: Weight of the corrector's loss.
        corrector_loss: `ce` or `mse`.
        corrector_anchor: Weight of the mean-squared error beside the cross-entropy.
        memory: Remember what the corrector missed of each target when it was last encoded.
        refresh: Number of refreshes over the run, or Atlas's schedule `0-1000:500,...`.
        full_refreshes: Full re-embeddings of `dynnibal`.
        subset_size: Targets that `stochastic` and `corrected-subset` hold; 0: a twentieth.
        sample_size: Targets that `dynnibal` embeds at each refit; 0: a twentieth.
        rank: Rank of the regression of `dynnibal`.
        rerank_depth: How many stale targets `stale-rerank` reranks for each query.
        refresh_below: The overlap with the true top-k under which `auto-refresh` re-embeds.
        fallback: Mine without the corrector while the meter finds it worse than none.
        search: How the corrected strategies search: `exact`, `rolling`, `ivf`, or `auto`.
        filters: What may be a false negative, and is not mined; see `Filters`.
        cross_encoder: Is asked, too: what it scores above the positive is not mined.
        buffer: An embedded corpus to reuse; by default it is embedded into `output/buffer`.
        dtype: Of a buffer embedded here.
        mapped: Leave the buffer on disk: for one that does not fit in memory.
        eval_split: The split to measure on, before and after.
        eval_steps: Also measure after every so many steps; 0 for not.
        meter_steps: Steps between freshness readings; by default a tenth of the run.
        probe_queries: Queries of the meter's probe.
        probe_targets: Targets of the meter's probe, encoded at each reading.
        save_steps: Steps between checkpoints; 0 for none.
        keep_checkpoints: How many good checkpoints to keep.
        resume: Go on from the last checkpoint in `output/checkpoints`.
        trainer: Further `SentenceTransformerTrainingArguments`, which win over ours.
        progress: Show progress bars.

    Returns:
        One entry of `runs` in `results.json`.
    """
    corrector_hidden = hidden_widths(corrector_hidden)
    arguments = locals()
    checked = signature(check_settings).parameters
    check_settings(**{name: arguments[name] for name in checked})
    clock = Stopwatch()
    veto = CrossScores(cross_encoder, dataset, device=str(model.device)) if cross_encoder else None
    scale = scale or (20.0 if is_cosine(model) else 1.0)
    rate = learning_rate if learning_rate is not None else default_rate(model)
    kind = find_strategy(strategy)
    pairs = dataset.split("train").pairs
    batch = batch_size if batch_size is not None else default_batch(model, len(pairs))
    count = negatives(strategy, hard_negatives, uniform_negatives, free_negatives)
    if kind.frozen:
        freeze_targets(model)
    set_seed(seed)
    progress = progress and distributed.rank() == 0
    with distributed.first_alone():
        tokens = target_tokens(model, dataset, progress=progress)
    evaluator = Evaluator(dataset, eval_split, tokens, progress=progress)
    evaluate = clock.timed("evaluation", evaluator)

    cache, embedded, where = None, 0, buffer or output / "buffer"
    if kind.buffered or buffer is not None:
        cache, embedded = clock.timed("embedding", open_or_embed)(
            model, dataset.targets, tokens, buffer, where, dtype, progress=progress
        )
    initial = evaluate(model, cache.chunks(16_384) if cache else None)  # the buffer is the corpus

    choice = None
    if kind.searches and cache is not None:
        choice = fix_search(
            output, search, cache, corrector_hidden, batch, model.device,
            mapped=mapped, memory=memory,
        )  # fmt: skip
    recipe = Recipe(
        targets=len(dataset.targets),
        buffer=hold(cache, model.device, kind, mapped=mapped) if cache else None,
        device=model.device,
        steps=steps,
        seed=seed,
        scale=scale,
        uniform_negatives=count.uniform,
        given=ByQuery(dataset.split("train").negatives, len(dataset.queries)),
        given_negatives=given_negatives,
        sampling=sampling,
        corrector_hidden=corrector_hidden,
        corrector_loss=corrector_loss,
        corrector_anchor=corrector_anchor,
        memory=memory,
        refresh=refresh,
        full_refreshes=full_refreshes,
        subset_size=subset_size,
        sample_size=sample_size,
        rank=rank,
        rerank_depth=rerank_depth,
        search=choice or search,
        batch_size=batch,
        filters=filters or Filters(),
        veto=veto,
        refresh_below=refresh_below,
        fallback=fallback,
    )
    miner = build_miner(strategy, recipe)
    positives = Positives(dataset, ["train"])
    loss = FreshNegativesLoss(
        model,
        miner,
        tokens,
        positives,
        scale=scale,
        hard_negatives=count.hard,
        free_negatives=count.free,
        corrector_weight=corrector_weight,
        share_candidates=share_candidates,
        mini_batch_size=mini_batch_size,
        matryoshka_dims=matryoshka_dims,
        learn_scale=learn_scale,
    )
    loss.about = {"strategy": strategy, "corpus": dataset.name, "targets": len(dataset.targets)}
    arguments = trainer_arguments(
        output, steps=steps, batch_size=batch, learning_rate=rate, seed=seed,
        save_steps=save_steps, device=model.device, progress=progress,
    )  # fmt: skip
    told = merged(arguments | miner_arguments(model, loss, corrector_lr), trainer or {})
    fresh_trainer = FreshTrainer(
        model,
        SentenceTransformerTrainingArguments(**told),
        training_rows(dataset),
        loss,
        Meter(dataset, pairs, tokens, scale=scale, queries=probe_queries, targets=probe_targets),
        meter_steps or max(1, steps // 10),
        evaluate if eval_steps else None,
        eval_steps,
        keep_checkpoints,
    )
    loss.record.clock = clock
    loss.record.identity = identity(dataset, pairs, where if cache else None, choice)
    try:
        go_on(fresh_trainer, output, resume=resume)
    except NotFiniteError as error:
        raise explain(error, dataset, output) from None
    counters = asdict(loss.record.counters)
    training = counters.pop("training_seconds")

    if distributed.rank() == 0:
        save_weights(output, model, miner)
    examples = MinedExamples(model, miner, dataset, tokens, positives, step=steps)
    corpus = fresh_chunks(model, tokens, progress=progress)
    metrics = evaluate(model, examples.watch(corpus))
    if distributed.rank() == 0:
        evaluator.save(output, strategy)
        name, logs = f"{dataset.name} {eval_split}", fresh_trainer.state.log_history
        write_card(output / "model", model, name, metrics, loss.record.freshness, logs)
    parts = ("mining", "metering", "starting")
    seconds = {part: counters.pop(f"{part}_seconds") for part in parts}
    seconds["training"] = training
    return {
        "strategy": strategy,
        "seed": seed,
        "steps": steps,
        "batch_size": batch,
        "split": eval_split,
        "initial_metrics": initial,
        "metrics": metrics,
        "processes": distributed.world(),
        "negatives": count._asdict(),
        "search": choice.mode if choice else None,
        "targets_embedded": embedded,
        **counters,
        "seconds": {"embedding": 0.0, **clock.read(), **seconds},
        "steps_per_second": steps / training,
        "truncated_targets": tokens.truncated,
        "freshness": [asdict(f) for f in loss.record.freshness],
        "corrector_worse_at": [f.step for f in loss.record.freshness if worse_than_stale(f)],
        "searched": loss.record.search,
        "curve": loss.record.curve,
        "examples": examples.listed(),
    }
