"""The flags of `unstale rag` and `unstale answer`."""

from dataclasses import dataclass, field
from typing import Any, Literal

from unstale.cli.options import Output, Shape


@dataclass(frozen=True)
class Rag(Output, Shape):
    """Train both. Writes results.json, config.yaml, model/ (the retriever) and reader/.

    Args:
        data: Questions with answers and a corpus: a BEIR folder with `metadata.answers`, a folder
            of train/dev/test files as NQ-open, TriviaQA, HotPotQA, FiD or Atlas write them (with
            corpus.jsonl, or contexts in the files), or the built-in made-up world facts.
        retriever: `tiny` (built in, made for a CPU), a sentence-transformers folder or hub name.
        reader: `tiny` (a small T5 from nothing, for small worlds), or the folder or hub name of
            any T5-like model.
        strategy: How targets are retrieved while training. corrected: the stale cache through
            the corrector (the paper's method). stale: as it is. exhaustive: re-embed all targets
            on a schedule; two-round: once, halfway. frozen: train the reader only. none: no
            retrieval.
        steps: Optimizer steps.
        batch_size: Questions a step.
        k: Targets retrieved for each question; default: 32, as the paper, or 8 on a CPU.
        fusion: fid: the decoder sees all targets at once (the paper's experiments). marginal: each
            target answers, weighted by the retriever (as Algorithm 2 is written).
        likelihood: How the reader scores targets for the retriever: sequence (the paper's), or
            the mean token log-likelihood over 0.01, as Atlas.
        sampling: Take the top-k, or sample from the softmax by Gumbel-max.
        seed: Of data order, corrector and draws.
        scale: The paper's beta; default: 20 for cosines, 1 for dot products.
        learning_rate: Of the retriever; default: 1e-3 for static embeddings, otherwise 2e-5.
        reader_lr: Of the reader; default: 3e-3 for `tiny`, otherwise 1e-4.
        reader_max_length: Cut a question with its target after so many tokens.
        answer_length: The most tokens of an answer.
        dropout: Keep retriever's and reader's dropout while training.
        corrector_hidden: Width of the corrector's hidden layer, a list for several, 0 for none.
        corrector_lr: Learning rate of the corrector.
        corrector_weight: Weight of the corrector's loss (paper: 10).
        corrector_anchor: Weight of an mse beside the cross-entropy; 0 for the paper's.
        memory: Remember what the corrector missed of each target; --no-memory for the paper's.
        refresh: How many times in the run exhaustive refreshes (paper: 40; 500: 500 times, not
            every 500 steps); or a schedule as Atlas writes it, in each range after every so many
            steps: 0-1000:500,1000-10000:2000.
        search: How to search h(B): exact, rolling, ivf, or auto by size and memory.
        buffer: Reuse a corpus embedded by `unstale embed`, if model and corpus are the same.
        dtype: How to store a corpus embedded here; figures before training are measured through it.
        eval_split: Measure on this split; use dev to choose a recipe.
        eval_steps: Also measure after every so many steps, for the curve; 0 for not.
        eval_questions: The most questions to measure on, drawn once; 0 for all.
        meter_steps: Steps between freshness readings; default: a tenth of the run.
        probe_queries: Queries of the freshness probe.
        probe_targets: Targets of the freshness probe, encoded at each reading.
        save_steps: Steps between checkpoints; 0 for none.
        keep_checkpoints: How many good checkpoints to keep, the newest ones.
        resume: Go on from the last checkpoint in the output folder.
        trainer: Anything else that transformers' TrainingArguments takes, e.g.
            `--trainer.weight_decay 0.01`.
    """

    data: str = "facts"
    retriever: str = "tiny"
    reader: str = "tiny"
    strategy: str = "corrected"
    steps: int = 800
    batch_size: int = 32
    k: int | None = None
    fusion: Literal["fid", "marginal"] = "fid"
    likelihood: Literal["sequence", "mean"] = "sequence"
    sampling: Literal["top-k", "gumbel"] = "top-k"
    seed: int = 0
    scale: float | None = None
    learning_rate: float | None = None
    reader_lr: float | None = None
    reader_max_length: int = 256
    answer_length: int = 64
    dropout: bool = False
    corrector_hidden: int | list[int] = 768
    corrector_lr: float = 1e-3
    corrector_weight: float = 10.0
    corrector_anchor: float = 1.0
    memory: bool = True
    refresh: int | str = 40
    search: Literal["auto", "exact", "rolling", "ivf"] = "auto"
    buffer: str | None = None
    dtype: Literal["float32", "float16", "int8"] = "float32"
    eval_split: str = "test"
    eval_steps: int = 0
    eval_questions: int = 0
    meter_steps: int | None = None
    probe_queries: int = 64
    probe_targets: int = 512
    save_steps: int = 0
    keep_checkpoints: int = 2
    resume: bool = False
    trainer: dict[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> str:
        """The encoder, by the name that other commands have for it."""
        return self.retriever


@dataclass(frozen=True)
class Answer:
    """Answer. Shows the answer, the targets it was read from and their probabilities.

    Args:
        question: What to answer.
        run: A run folder that `unstale rag` wrote.
        width: Characters of each target to show.
    """

    question: str
    run: str = "runs/rag"
    width: int = 200
