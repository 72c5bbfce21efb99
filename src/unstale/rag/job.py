"""One run of Algorithm 2, from questions to a retriever, a reader and their results."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from transformers import TrainingArguments, set_seed

from unstale import distributed
from unstale.buffer.embed import open_or_embed
from unstale.buffer.sharded import load
from unstale.encoders.embed import is_cosine
from unstale.encoders.tokenise import target_tokens
from unstale.files import atomic_file, atomic_folder, write_json
from unstale.integrity import digest
from unstale.rag.algorithm2 import Fusion, RetrieverReaderLoss
from unstale.rag.evaluator import RagEvaluator
from unstale.rag.losses import Likelihood
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader
from unstale.rag.settings import check_rag_settings, find_rag_strategy
from unstale.rag.trainer import RagTrainer
from unstale.search.auto import Mode
from unstale.training.arguments import trainer_arguments
from unstale.training.checkpoints import go_on
from unstale.training.failure import NotFiniteError, explain
from unstale.training.identity import identity
from unstale.training.meter import Meter
from unstale.training.recipe import Recipe, Sampling
from unstale.training.settings import hidden_widths
from unstale.training.start import default_rate, fix_search
from unstale.training.stopwatch import Stopwatch
from unstale.training.strategies import build_miner

ANSWERING = "answering.json"  # how a run answers: k, fusion, scale, limits
_SHOWN = 8  # answers that the report shows


def train_rag(
    questions: QuestionSet,
    retriever: SentenceTransformer,
    reader: Reader,
    output: Path,
    *,
    strategy: str = "corrected",
    steps: int = 600,
    batch_size: int = 16,
    k: int = 8,
    fusion: Fusion = "fid",
    likelihood: Likelihood = "sequence",
    sampling: Sampling = "top-k",
    seed: int = 0,
    scale: float | None = None,
    learning_rate: float | None = None,
    reader_lr: float = 1e-4,
    corrector_hidden: int | Sequence[int] = (768,),
    corrector_lr: float = 1e-3,
    corrector_weight: float = 10.0,
    corrector_anchor: float = 1.0,
    memory: bool = True,
    refresh: str | int = 40,
    search: Mode = "auto",
    buffer: Path | None = None,
    dtype: str = "float32",
    eval_split: str = "test",
    eval_steps: int = 0,
    eval_questions: int = 0,
    meter_steps: int | None = None,
    probe_queries: int = 64,
    probe_targets: int = 512,
    save_steps: int = 0,
    keep_checkpoints: int = 2,
    resume: bool = False,
    trainer: dict[str, Any] | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Train retriever and reader in place, write `output/model` and `output/reader`.

    Args:
        questions: Questions with answers (split `train`) and a corpus.
        retriever: The encoders, at their start.
        reader: The reader, at its start.
        output: The run folder.
        strategy: How targets are retrieved while training; see `rag.settings`.
        steps: Optimizer steps.
        batch_size: Questions a step.
        k: Targets retrieved for each question, in training and when answering.
        fusion: `fid` or `marginal`.
        likelihood: How the reader scores targets for the retriever, `sequence` or `mean`.
        sampling: `top-k`, or `gumbel` to sample from the softmax.
        seed: Of data order, corrector and draws.
        scale: The paper's beta; by default 20 for cosines, 1 for dot products.
        learning_rate: Of the encoders; by default 1e-3 for static embeddings, otherwise 2e-5.
        reader_lr: Learning rate of the reader.
        corrector_hidden: Width of the corrector's hidden layer, or of several.
        corrector_lr: Learning rate of the corrector.
        corrector_weight: Weight of the corrector's loss.
        corrector_anchor: Weight of the mean-squared error beside the cross-entropy.
        memory: Remember what the corrector missed of each target when it was last encoded.
        refresh: Number of refreshes of `exhaustive`, or Atlas's schedule `0-1000:500,...`.
        search: How `corrected` searches: `exact`, `rolling`, `ivf`, or `auto`.
        buffer: An embedded corpus to reuse; by default it is embedded into `output/buffer`.
        dtype: Of a buffer embedded here.
        eval_split: The split to measure on.
        eval_steps: Also measure after every so many steps; 0 for not.
        eval_questions: The most questions to measure on; 0 for all.
        meter_steps: Steps between freshness readings; by default a tenth of the run.
        probe_queries: Queries of the meter's probe.
        probe_targets: Targets of the meter's probe, encoded at each reading.
        save_steps: Steps between checkpoints; 0 for none.
        keep_checkpoints: How many good checkpoints to keep.
        resume: Go on from the last checkpoint in `output/checkpoints`.
        trainer: Further `TrainingArguments`, which win over ours.
        progress: Show progress bars.

    Returns:
        One entry of `runs` in `results.json`.
    """
    clock, corrector_hidden = Stopwatch(), hidden_widths(corrector_hidden)
    check_rag_settings(
        questions,
        retriever,
        reader,
        strategy=strategy,
        steps=steps,
        batch_size=batch_size,
        k=k,
        scale=scale,
        fusion=fusion,
        likelihood=likelihood,
        sampling=sampling,
        rates=(learning_rate, reader_lr, corrector_lr),
        corrector_hidden=corrector_hidden,
        corrector_weight=corrector_weight,
        corrector_anchor=corrector_anchor,
        memory=memory,
        refresh=refresh,
        eval_split=eval_split,
        eval_questions=eval_questions,
        keep_checkpoints=keep_checkpoints,
        probe_queries=probe_queries,
        probe_targets=probe_targets,
        buffer=buffer,
        dtype=dtype,
        trainer=trainer,
    )
    scale = scale or (20.0 if is_cosine(retriever) else 1.0)
    retrieves, frozen = strategy != "none", strategy in ("none", "frozen")
    if frozen:
        retriever.requires_grad_(False)
    set_seed(seed)
    dataset = questions.dataset
    progress = progress and distributed.rank() == 0
    with distributed.first_alone():
        tokens = target_tokens(retriever, dataset, progress=progress)

    cache, embedded, where = None, 0, buffer or output / "buffer"
    if retrieves:
        cache, embedded = clock.timed("embedding", open_or_embed)(
            retriever, dataset.targets, tokens, buffer, where, dtype, progress=progress
        )
    evaluator = RagEvaluator(
        questions, eval_split, tokens, reader,
        k=k if retrieves else 0, fusion=fusion, scale=scale, most=eval_questions, progress=progress,
    )  # fmt: skip
    evaluate = clock.timed("evaluation", evaluator)
    corpus = cache.chunks(16_384) if cache else None  # the buffer is the corpus as it starts
    initial = evaluate(retriever, corpus, read=False)

    choice = None
    if retrieves and strategy == "corrected" and cache is not None:
        device = retriever.device
        choice = fix_search(
            output, search, cache, corrector_hidden, batch_size, device, memory=memory
        )
    recipe = Recipe(
        targets=len(dataset.targets),
        buffer=load(cache, retriever.device) if cache else None,
        steps=steps,
        seed=seed,
        scale=scale,
        sampling=sampling,
        corrector_hidden=corrector_hidden,
        corrector_anchor=corrector_anchor,
        memory=memory,
        refresh=refresh,
        search=choice or search,
        batch_size=batch_size,
    )
    algorithm = RetrieverReaderLoss(
        retriever,
        reader,
        build_miner(find_rag_strategy(strategy), recipe),
        tokens,
        questions,
        scale=scale,
        k=k if retrieves else 0,
        fusion=fusion,
        likelihood=likelihood,
        corrector_weight=corrector_weight,
        frozen=frozen,
        seed=seed,
    )
    rows = questions.rows("train")
    arguments = trainer_arguments(
        output,
        steps=steps,
        batch_size=batch_size,
        learning_rate=reader_lr,
        seed=seed,
        save_steps=save_steps,
        device=retriever.device,
        progress=progress,
    )
    rag_trainer = RagTrainer(
        algorithm,
        TrainingArguments(**arguments | (trainer or {})),
        Dataset.from_dict({"question": rows}),
        retriever_lr=learning_rate if learning_rate is not None else default_rate(retriever),
        corrector_lr=corrector_lr,
        meter=Meter(
            dataset, np.stack([rows, np.full_like(rows, -1)], axis=1), tokens,
            scale=scale, queries=probe_queries, targets=probe_targets,
        ),
        meter_steps=meter_steps or max(1, steps // 10),
        evaluate=evaluate if eval_steps else None,
        eval_steps=eval_steps,
        keep_checkpoints=keep_checkpoints,
    )  # fmt: skip
    algorithm.record.clock = clock
    algorithm.record.identity = identity(dataset, rows, where if cache else None, choice)
    algorithm.record.identity["answers"] = digest([list(known) for known in questions.answers])
    try:
        go_on(rag_trainer, output, resume=resume)
    except NotFiniteError as error:
        raise explain(error, dataset, output) from None

    if distributed.rank() == 0:
        _save(output, algorithm)
    metrics = evaluate(retriever)
    if distributed.rank() == 0:
        evaluator.save(output)
    counters = asdict(algorithm.record.counters)
    parts = algorithm.record.parts
    training = counters.pop("training_seconds")
    own = {p: counters.pop(f"{p}_seconds") for p in ("mining", "metering", "starting")}
    return {
        "strategy": strategy,
        "seed": seed,
        "steps": steps,
        "split": eval_split,
        "initial_metrics": initial,
        "metrics": metrics,
        "processes": distributed.world(),
        "search": choice.mode if choice else None,
        "targets_embedded": embedded,
        **counters,
        "seconds": {
            "embedding": 0.0,
            **clock.read(),
            **own,
            "training": training,
            "retriever_forward": parts.get("retriever_seconds", 0.0),
            "reader_forward": parts.get("reader_seconds", 0.0),
        },
        "steps_per_second": steps / training,
        "truncated_targets": tokens.truncated,
        "gold_questions": evaluator.gold,
        "reader_inputs": int(parts.get("reader_inputs", 0)),
        "reader_truncated": int(parts.get("reader_truncated", 0)),
        "freshness": [asdict(f) for f in algorithm.record.freshness],
        "searched": algorithm.record.search,
        "curve": algorithm.record.curve,
        "examples": [],
        "answers": evaluator.answers[:: max(1, len(evaluator.answers) // _SHOWN)][:_SHOWN],
    }


def _save(output: Path, trained: RetrieverReaderLoss) -> None:
    """Write the weights of a run, and how it answers."""
    with atomic_folder(output / "model") as folder:
        trained.model.save_pretrained(str(folder))
    with atomic_folder(output / "reader") as folder:
        trained.reader.save(folder)
    if weights := {k: v.detach().contiguous() for k, v in trained.miner.named_parameters()}:
        with atomic_file(output / "corrector.safetensors") as file:
            save_file(weights, file)
    reader = trained.reader
    limits = {"max_length": reader.max_length, "answer_length": reader.answer_length}
    how = {"k": trained.k, "fusion": trained.fusion, "scale": trained.scale}
    write_json(output / ANSWERING, how | limits)
