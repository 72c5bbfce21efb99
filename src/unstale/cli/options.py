"""The flags of every command, as dataclasses: names, types, defaults and help in one place."""

from dataclasses import dataclass, field
from typing import Any, Literal

from unstale.cli.options_filters import Filtering


@dataclass(frozen=True)
class Shape:
    """In what shape an encoder is loaded.

    Args:
        towers: Separate parameters for queries and targets, as in the paper, or one for both;
            default: separate for `tiny`; any other model stays as it is.
        layers: Keep only the first so many transformer layers.
        query_prompt: Text before every query. Saved with the model.
        target_prompt: Text before every target. Saved with the model.
        query_max_length: Cut queries after so many tokens. Saved with the model.
        target_max_length: Cut targets after so many tokens. Saved with the model.
        device: cpu, cuda, mps; default: an accelerator if there is one.
        trust_remote_code: Let a hub model run code of its own.
    """

    towers: Literal["tied", "separate"] | None = None
    layers: int | None = None
    query_prompt: str | None = None
    target_prompt: str | None = None
    query_max_length: int | None = None
    target_max_length: int | None = None
    device: str | None = None
    trust_remote_code: bool = False


@dataclass(frozen=True)
class Encoder(Shape):
    """Which encoder.

    Args:
        model: `tiny` (built in, made for a CPU), a sentence-transformers folder, or a hub name.
    """

    model: str = "tiny"


@dataclass(frozen=True)
class Output:
    """Where results go.

    Args:
        output: A new or empty folder.
        overwrite: Replace a folder that an earlier unstale command wrote.
    """

    output: str = ""
    overwrite: bool = False


@dataclass(frozen=True)
class Train(Output, Filtering, Encoder):
    """Train. Writes results.json, config.yaml, model/ (plain sentence-transformers) and a TREC run.

    Args:
        data: Data in any format that unstale reads (BEIR, DPR, csv, ...), a hub name, or the
            built-in set docstrings, which `docstrings:numpy,rich` makes of other packages.
        strategy: How negatives are chosen. corrected-free: search the stale cache through the
            corrector, and train the queries on what is found as the corrector sees it, so that
            only positives are encoded: the most quality for each second. corrected: encode what is
            found (the paper's method; corrected-mse: the other loss). stale: search it as it
            is (stale-frozen: and do not train the target tower). exhaustive: re-embed all targets
            on a schedule; two-round: once, halfway. stochastic: re-draw and re-embed a subset.
            dynnibal: a low-rank regression, refitted (our reading). auto-refresh: re-embed all
            when the freshness meter says so (--refresh-below). corrected-subset,
            stale-rerank: for a cache that does not fit. uniform: at random. in-batch: none.
        steps: Optimizer steps.
        batch_size: Queries a step; default: 256 for static embeddings, otherwise 64.
        hard_negatives: Targets mined and encoded for each query, before the union over the batch
            (paper: 64); default: 4, or 0 for corrected-free.
        uniform_negatives: Targets drawn uniformly and encoded for each query (paper: 64); default:
            1, or 0 for corrected-free.
        free_negatives: Targets mined for each query and not encoded, which teach the query encoder
            alone; default: 4 for corrected-free, otherwise 0.
        given_negatives: Targets drawn for each query, anew each step, from the hard negatives that
            the data came with.
        share_candidates: Let all queries of a batch share the candidates of all, as the paper.
        sampling: Take the top-k, or sample from the softmax by Gumbel-max.
        seed: Of data order, corrector and draws.
        scale: The paper's beta, 1/temperature; default: 20 for cosines, 1 for dot products.
        learn_scale: Train the scale, too, at the corrector's learning rate.
        mini_batch_size: Encode so many texts at a time (GradCache): the same gradients with the
            memory of a mini-batch, and one more forward pass; 0 for all at once.
        matryoshka_dims: Also train the first so many dimensions as vectors of their own, e.g.
            [256,128,64].
        learning_rate: Of the encoders; default: 1e-3 for static embeddings, otherwise 2e-5.
        dropout: Keep the encoder's dropout while training.
        corrector_hidden: Width of the corrector's hidden layer (paper: 8192), a list such as
            [512,512] for several, 0 for none.
        corrector_lr: Learning rate of the corrector.
        corrector_weight: Weight of the corrector's loss (paper: 10).
        corrector_loss: ce (equation 6) or mse (equation 5, squared).
        corrector_anchor: Weight of an mse beside the ce, which keeps the corrector comparable
            over time; 0 for the paper's.
        memory: Remember what the corrector missed of each target when it was last encoded, and
            add it; --no-memory for the paper's.
        refresh: How many times in the run exhaustive, stochastic and dynnibal refresh (500: 500
            times, not every 500 steps); or a schedule as Atlas writes it, in each range after every
            so many steps: 0-1000:500,1000-10000:2000.
        full_refreshes: Full re-embeddings of dynnibal (paper: 2; 0 for none).
        subset_size: Targets that stochastic and corrected-subset hold; 0 for a twentieth.
        sample_size: Targets that dynnibal embeds at each refit; 0 for a twentieth.
        rank: Rank of the regression of dynnibal.
        rerank_depth: How many stale targets stale-rerank reranks for each query.
        refresh_below: auto-refresh re-embeds when the meter finds the cache to hold less than this
            share of the true top 10.
        fallback: Mine from the stale cache for as long as the meter finds the corrector worse than
            none, by KL or overlap.
        search: How to search the cache through the corrector. exact: every target. rolling: as
            fast as a stale search, and nearly exact. ivf: only the cells of targets that may
            matter, for millions (needs faiss). auto: chosen by size and memory.
        buffer: Reuse a corpus embedded by `unstale embed`, if model and corpus are the same.
        dtype: How to store a corpus embedded here; figures before training are measured through it.
        mapped: Leave the embedded corpus on disk, for one that does not fit in memory.
        eval_split: Measure on this split, before and after; use dev to choose a recipe.
        eval_steps: Also measure after every so many steps, for the curve; 0 for not.
        meter_steps: Steps between freshness readings; default: a tenth of the run.
        probe_queries: Queries of the freshness probe.
        probe_targets: Targets of the freshness probe, encoded at each reading.
        save_steps: Steps between checkpoints; 0 for none.
        keep_checkpoints: How many good checkpoints to keep, the newest ones.
        resume: Go on from the last good checkpoint in the output folder; no other flag is needed.
        trainer: Anything else that SentenceTransformerTrainingArguments takes, e.g.
            `--trainer.weight_decay 0.01`.
    """

    data: str = "docstrings"
    strategy: str = "corrected-free"
    steps: int = 300
    batch_size: int | None = None
    hard_negatives: int | None = None
    uniform_negatives: int | None = None
    free_negatives: int | None = None
    given_negatives: int = 0
    share_candidates: bool = True
    sampling: Literal["top-k", "gumbel"] = "top-k"
    seed: int = 0
    scale: float | None = None
    learn_scale: bool = False
    mini_batch_size: int = 0
    matryoshka_dims: list[int] = field(default_factory=list)
    learning_rate: float | None = None
    dropout: bool = False
    corrector_hidden: int | list[int] = 768
    corrector_lr: float = 1e-3
    corrector_weight: float = 10.0
    corrector_loss: Literal["ce", "mse"] = "ce"
    corrector_anchor: float = 1.0
    memory: bool = True
    refresh: int | str = 80
    full_refreshes: int = 2
    subset_size: int = 0
    sample_size: int = 0
    rank: int = 64
    rerank_depth: int = 256
    refresh_below: float = 0.9
    fallback: bool = True
    search: Literal["auto", "exact", "rolling", "ivf"] = "auto"
    buffer: str | None = None
    dtype: Literal["float32", "float16", "int8"] = "float32"
    mapped: bool = False
    eval_split: str = "test"
    eval_steps: int = 0
    meter_steps: int | None = None
    probe_queries: int = 64
    probe_targets: int = 512
    save_steps: int = 0
    keep_checkpoints: int = 2
    resume: bool = False
    trainer: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Compare(Train):
    """Compare. A killed comparison goes on with --resume; finished runs are kept.

    Args:
        strategies: Names parted by commas; `stale:1` runs only the first seed. Default:
            in-batch,stale,corrected,exhaustive, or with a reader none,frozen,corrected,exhaustive.
        seeds: Whole numbers parted by commas; each strategy is trained once for each.
        reader: Compare strategies of `unstale rag` with this reader, the model being the
            retriever: none, frozen, stale, corrected, exhaustive, two-round.
        rag: With a reader, any other flag of `unstale rag`, e.g. `--rag.k 16`.
    """

    strategies: str = ""
    seeds: str = "0,1,2"
    reader: str | None = None
    rag: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Demo:
    """See the gain. Builds the data, embeds it once, trains twice from the same start.

    Args:
        output: Where results go; what an earlier demo wrote there is replaced.
        steps: Optimizer steps of each training.
        seed: Of data order, corrector and draws.
    """

    output: str = "runs/demo"
    steps: int = 300
    seed: int = 0


@dataclass(frozen=True)
class Embed(Output, Encoder):
    """Embed. The buffer is safetensors shards and a manifest; a killed embedding can go on.

    Args:
        data: A file or folder in any format that unstale reads, a name on the hub, or docstrings.
        dtype: float32, float16 for half the size, or int8 with a scale for each row for a quarter.
        shard_rows: Targets to one shard; a kill costs one shard at most.
        tokens_per_batch: The most tokens that one forward pass sees.
        resume: Finish a buffer that was interrupted.
    """

    data: str = "docstrings"
    dtype: Literal["float32", "float16", "int8"] = "float32"
    shard_rows: int = 16_384
    tokens_per_batch: int = 16_384
    resume: bool = False


@dataclass(frozen=True)
class Evaluate(Output, Encoder):
    """Evaluate. Writes results.json with an entry and a TREC run file for each dataset.

    Args:
        data: Files or folders in any format that unstale reads, names on the hub, or docstrings;
            several are parted by spaces.
        split: The split to measure on.
    """

    data: list[str] = field(default_factory=lambda: ["docstrings"])
    split: str = "test"


@dataclass(frozen=True)
class Search:
    """Search. The corpus is embedded with the trained model once, and kept in the run folder.

    Args:
        query: What to look for.
        run: A run folder that `unstale demo` or `unstale train` wrote.
        k: How many targets to show.
        width: Characters of each target to show.
    """

    query: str
    run: str = "runs/demo"
    k: int = 5
    width: int = 300


@dataclass(frozen=True)
class Report:
    """Report. Writes report.html into the run folder: one file, no script, nothing loaded.

    Args:
        run: A run folder with a results.json.
    """

    run: str


@dataclass(frozen=True)
class Experiment:
    """Run a study. Writes results.json, figure.png where there is something to see, or table.md.

    Args:
        name: Which; an unknown name lists them all.
        output: A new or empty folder; default: runs/NAME.
        overwrite: Replace a folder that an earlier unstale command wrote.
        resume: Go on in a folder of an earlier run: what was embedded or trained is kept.
        seed: Of everything random, default 0; a grid of trainings takes `--set.seeds 0,1`.
        data: A dataset in any format that unstale reads, for the experiments on real data.
        train: Flags of `unstale train` for all trainings of a grid, e.g. `--train.layers 2`.
        set: Any other setting of the experiment, e.g. `--set.epochs 100`.
    """

    name: str
    output: str = ""
    overwrite: bool = False
    resume: bool = False
    seed: int | None = None
    data: str | None = None
    train: dict[str, Any] = field(default_factory=dict)
    set: dict[str, Any] = field(default_factory=dict)
