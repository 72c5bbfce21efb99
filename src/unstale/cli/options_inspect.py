"""The flags of commands that look at a run, data or machine, correct vectors, or run a study."""

from dataclasses import dataclass, field
from typing import Any

from unstale.cli.options import DataFlags, EncoderFlags, OutputFlags, ResumeFlags, TrustFlags
from unstale.declare import MOST_SEED, setting
from unstale.migration.settings import MigrateSettings
from unstale.settings import Precision


@dataclass(frozen=True)
class SearchFlags(TrustFlags):
    """Search a corpus with a trained model, and read the results as a table.

    The corpus is embedded with the trained model once, and kept in the run folder.

    Args:
        query: Text to search for.
        run: Run folder of `unstale demo` or `unstale train`.
        k: Number of targets to show.
    """

    query: str
    run: str = "runs/demo"
    k: int = setting(5, least=1)


@dataclass(frozen=True)
class AnswerFlags(TrustFlags):
    """Answer a question with a trained retriever and reader, and show the sources.

    It prints the answer, the targets that the reader saw and their probabilities.

    Args:
        question: Question to answer.
        run: Run folder of `unstale rag`.
    """

    question: str
    run: str = "runs/rag"


@dataclass(frozen=True)
class ServeFlags(TrustFlags):
    """Try a run in the browser: the model before and after training, side by side.

    The corpus is embedded by both models once, and kept in the run folder.

    Args:
        run: Run folder of `unstale demo`, `train` or `rag`, or a cell of a comparison.
        port: Port to listen on. 0 takes a free one.
        k: Number of targets to show on each side.
    """

    run: str
    port: int = setting(8000, least=0, most=2**16 - 1)
    k: int = setting(10, least=1)


@dataclass(frozen=True)
class ReportFlags:
    """Make one HTML page of a run's results: charts, table, examples of mined negatives.

    It writes report.html into the run folder: one file that opens offline.

    Args:
        run: Run folder with a results.json.
    """

    run: str


@dataclass(frozen=True)
class VerifyFlags:
    """Check the checksums of a run folder, its checkpoints or a buffer.

    It reads every file that a manifest lists, and names each one that is damaged or missing.

    Args:
        path: Run folder, checkpoint or buffer. Folders inside it are checked, too.
    """

    path: str


@dataclass(frozen=True)
class DoctorFlags(OutputFlags, DataFlags, EncoderFlags):
    """Try your data for two minutes, and tell whether hard negatives pay.

    It trains on a sample with in-batch negatives and with staged for the same time, and advises.

    Args:
        seconds: Time to spend. It decides how large the sample is and how many steps are trained.
        steps: Number of training steps. Default: as many as fit into the time.
        targets: Largest number of targets in the sample.
        batch_size: Queries in one step. Default: at most 64, fewer for a slow encoder.
        output: Also write the readings to results.json in this new or empty folder.
    """

    seconds: float = setting(120.0, above=0)
    steps: int | None = setting(None, least=1)
    targets: int = setting(20_000, least=2)
    batch_size: int | None = setting(None, least=1)
    learning_rate: float | None = setting(None, least=0)
    seed: int = setting(0, least=0, most=MOST_SEED)


@dataclass(frozen=True)
class PlanFlags(EncoderFlags):
    """Estimate memory, time and disk of a run before it is started.

    It measures this machine for some seconds, or takes --flops, and prints a table.

    Args:
        targets: Number of targets in the corpus.
        steps: Number of optimizer steps.
        batch_size: Queries in one step, over all devices.
        hard_negatives: Targets mined for each query.
        uniform_negatives: Targets drawn uniformly for each query.
        corrector_hidden: Width of the corrector's hidden layer.
        target_tokens: Average number of tokens of a target.
        query_tokens: Average number of tokens of a query.
        refreshes: Number of times that `exhaustive` re-embeds the corpus in the run.
        dtype: Precision of the embedded corpus.
        devices: Number of processes that share the work.
        device_memory: Memory of each device in gigabytes. Default: what is free on this one.
        bandwidth: Bandwidth between devices in gigabytes per second.
        flops: Sustained operations per second of a device. Default: measured on this machine.
        parameters: With --flops, parameters of one tower of the encoder without its token table.
        dim: With --flops, width of the embeddings.
        output: Also write the plan to this JSON file.
    """

    targets: int = setting(100_000, least=1)
    steps: int = setting(10_000, least=1)
    batch_size: int = setting(64, least=1)
    hard_negatives: int = setting(4, least=0)
    uniform_negatives: int = setting(1, least=0)
    corrector_hidden: int = setting(768, least=1)
    target_tokens: int = setting(128, least=1)
    query_tokens: int = setting(16, least=1)
    refreshes: int = setting(80, least=0)
    dtype: Precision = "float32"
    devices: int = setting(1, least=1)
    device_memory: float | None = setting(None, above=0)
    bandwidth: float = setting(10.0, above=0)
    flops: float | None = setting(None, above=0)
    parameters: float | None = setting(None, above=0)
    dim: int = setting(768, least=1)
    output: str | None = None


@dataclass(frozen=True)
class CorrectFlags(ResumeFlags, EncoderFlags, MigrateSettings):
    """Update the vectors of an old encoder for a new one by embedding only a sample.

    It estimates quality and cost of each way to upgrade, and writes what --way asks for.

    Args:
        vectors: Old vectors, which are only read: a .npy, .safetensors, .parquet or .faiss file,
            a buffer of `unstale embed`, or a collection as `qdrant:PLACE#COLLECTION`; lancedb,
            chroma, pgvector and sqlite-vec are written alike (`?id=FIELD&vector=FIELD` names their
            fields). They are matched with the texts by id, or by row if they have no ids.
        old_model: Encoder that made the old vectors. It embeds queries for the old index.
        ids: Text file with the target id of each row, one per line. Use it if the rows are in
            another order than the texts.
        swap: Serve the new collection in place of the old one, which is kept.
        shard: Embed only part I of N, e.g. 0/8, as one task of a job array. Parts may run at the
            same time and in any order. Afterwards, run once with --resume and without --shard.
        data: Texts, and queries for the validation, in any format that unstale reads. A BEIR
            folder may lack qrels and queries.
    """

    vectors: str = ""
    data: str = "docstrings"
    old_model: str | None = None
    ids: str | None = None
    swap: bool = setting(False, changeable=True)
    shard: str | None = setting(None, changeable=True)


@dataclass(frozen=True, kw_only=True)
class ExperimentFlags(ResumeFlags):
    """Run one of the paper's studies, by name.

    It writes results.json, and figure.png or table.md where there is one.

    Args:
        name: Name of the study. An unknown name lists them all.
        output: Folder for the results. Default: runs/NAME.
        resume: Resume an interrupted study: what was embedded or trained is kept.
        seed: Random seed. Default: 0. A grid of trainings takes `--set.seeds 0,1`.
        data: Dataset in any format that unstale reads, for the studies on real data.
        train: Flags of `unstale train` for all trainings of a grid, e.g. `--train.layers 2`.
        set: Any other setting of the study, e.g. `--set.epochs 100`.
    """

    name: str
    seed: int | None = setting(None, least=0, most=MOST_SEED)
    data: str | None = None
    train: dict[str, Any] = field(default_factory=dict)
    set: dict[str, Any] = field(default_factory=dict)
