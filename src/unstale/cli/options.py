"""The flags of every command, as dataclasses: names, types, defaults and help in one place.

Settings that Python has too are declared in `unstale.settings`, and inherited here.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from unstale.declare import setting
from unstale.settings import FilterSettings, Precision, TrainSections


@dataclass(frozen=True)
class Machine:
    """Machine: where to run.

    Args:
        device: cpu, cuda or mps. Default: an accelerator if there is one.
        trust_remote_code: Let a model from the hub run its own code.
    """

    device: str | None = setting(None, changeable=True, local=True)
    trust_remote_code: bool = setting(False, local=True)


@dataclass(frozen=True)
class EncoderShape(Machine):
    """Encoder: in what shape it is loaded.

    Args:
        towers: separate gives queries and targets parameters of their own, as in the paper; tied
            shares them. Default: separate for `tiny`; any other model stays as it is.
        layers: Keep only the first N transformer layers.
        query_prompt: Text to put before every query. It is saved with the model.
        target_prompt: Text to put before every target. It is saved with the model.
        query_max_length: Truncate queries after N tokens. It is saved with the model.
        target_max_length: Truncate targets after N tokens. It is saved with the model.
    """

    towers: Literal["tied", "separate"] | None = None
    layers: int | None = None
    query_prompt: str | None = None
    target_prompt: str | None = None
    query_max_length: int | None = None
    target_max_length: int | None = None


@dataclass(frozen=True)
class Encoder(EncoderShape):
    """Encoder: which one.

    Args:
        model: Encoder to load: `tiny` (built in, made for a CPU), a sentence-transformers folder,
            or a hub name.
    """

    model: str = "tiny"


@dataclass(frozen=True)
class Dropout:
    """Encoder: while it is trained.

    Args:
        dropout: Keep the dropout of the models while training. A corrector would follow its noise.
    """

    dropout: bool = False


@dataclass(frozen=True)
class Output:
    """Output: where results go.

    Args:
        output: Folder for the results. It must be new or empty.
        overwrite: Replace a folder that an earlier unstale command wrote.
    """

    output: str = setting("", changeable=True, local=True)
    overwrite: bool = setting(False, changeable=True, local=True)


@dataclass(frozen=True)
class Resumable(Output):
    """Output: where results go.

    Args:
        resume: Resume an interrupted run in the output folder. No other flag is needed.
    """

    resume: bool = setting(False, changeable=True, local=True)


@dataclass(frozen=True)
class Train(Resumable, TrainSections, Dropout, Encoder):
    """Train. Writes results.json, config.yaml, model/ (plain sentence-transformers) and a TREC run.

    Args:
        data: Dataset in any format that unstale reads (BEIR, DPR, csv, ...), a hub name, or the
            built-in docstrings; docstrings:numpy,rich makes it of other packages.
    """

    data: str = setting("docstrings", local=True)


@dataclass(frozen=True)
class Compare(Train):
    """Compare. Resume an interrupted comparison with --resume; finished runs are kept.

    Args:
        strategies: Strategies to compare, separated by commas; `stale:1` runs only the first seed.
            Default: in-batch,stale,corrected,exhaustive, or with a reader
            none,frozen,corrected,exhaustive.
        seeds: Random seeds, separated by commas. Each strategy is trained once with each.
        reader: Compare strategies of `unstale rag` with this reader; the model is the retriever.
        rag: With a reader, any other flag of `unstale rag`, e.g. `--rag.k 16`.
    """

    strategies: str = setting("", changeable=True)
    seeds: str = setting("0,1,2", changeable=True)
    reader: str | None = None
    rag: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Demo:
    """See the gain. Builds the data, embeds it once, trains twice from the same start.

    Args:
        output: Folder for the results. What an earlier demo wrote there is replaced.
        steps: Number of optimizer steps of each training.
        seed: Random seed for data order, corrector initialisation and sampling.
    """

    output: str = "runs/demo"
    steps: int = 300
    seed: int = 0


@dataclass(frozen=True)
class Embed(Resumable, Encoder):
    """Embed. Writes the buffer as safetensors shards and a manifest.

    Args:
        data: Dataset in any format that unstale reads, a hub name, or docstrings.
        dtype: Precision of the embeddings: float32, float16 for half the size, or int8 with a
            scale for each row for a quarter.
        shard_rows: Targets in one shard. An interruption costs at most one shard.
        tokens_per_batch: Largest number of tokens in one forward pass.
    """

    data: str = "docstrings"
    dtype: Precision = "float32"
    shard_rows: int = 16_384
    tokens_per_batch: int = 16_384


@dataclass(frozen=True)
class Evaluate(Output, Encoder):
    """Evaluate. Writes results.json with an entry and a TREC run file for each dataset.

    Args:
        data: One or several datasets in any format that unstale reads, hub names, or docstrings.
        split: Split to evaluate on.
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
    """Run a study. Writes results.json, and figure.png or table.md where there is one.

    Args:
        name: Name of the study. An unknown name lists them all.
        output: Folder for the results. Default: runs/NAME.
        overwrite: Replace a folder that an earlier unstale command wrote.
        resume: Resume an interrupted study: what was embedded or trained is kept.
        seed: Random seed. Default: 0. A grid of trainings takes `--set.seeds 0,1`.
        data: Dataset in any format that unstale reads, for the studies on real data.
        train: Flags of `unstale train` for all trainings of a grid, e.g. `--train.layers 2`.
        set: Any other setting of the study, e.g. `--set.epochs 100`.
    """

    name: str
    output: str = ""
    overwrite: bool = False
    resume: bool = False
    seed: int | None = None
    data: str | None = None
    train: dict[str, Any] = field(default_factory=dict)
    set: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Convert(Output):
    """Convert. Says what the new format has no place for.

    Args:
        data: Dataset to convert: [FORMAT:]PATH[:ROLE=COLUMN,...], a hub name, or a built-in set.
        to: Format to write: beir, msmarco, hf, dpr, fid, tevatron, tevatron-inline,
            flagembedding, csv, jsonl or parquet.
    """

    data: str = ""
    to: str = "beir"


@dataclass(frozen=True)
class Mine(Output, FilterSettings, Encoder):
    """Mine. Writes every split and the whole corpus, the mined negatives with one split.

    Args:
        data: Dataset in any format that unstale reads, a hub name, or a built-in set. Default
            with --run: the data of the run.
        split: Split whose queries to mine for.
        run: Mine with the corrected embeddings of a training run; the model is the run's. With
            --model RUN/model the targets are embedded anew instead.
        hard_negatives: Negatives to mine for each query.
        format: Format to write; see `unstale convert`. csv, jsonl, parquet and hf have a row of
            query, positive, negative_1, ... for each pair.
        buffer: Reuse the corpus embedded by `unstale embed` into this folder. Model and corpus
            must be the same.
    """

    data: str = ""
    split: str = "train"
    run: str | None = None
    hard_negatives: int = 4
    format: str = "jsonl"
    buffer: str | None = None
