"""The flags of commands that look at a run, the data or the machine, or correct vectors."""

from dataclasses import dataclass

from unstale.cli.options import DataFlags, EncoderFlags, OutputFlags, ResumeFlags, TrustFlags
from unstale.declare import MOST_SEED, setting
from unstale.migration.settings import MigrateSettings
from unstale.settings import Precision


@dataclass(frozen=True)
class SearchFlags(TrustFlags):
    """Search a corpus with a trained model, and read the results as a table.

    The corpus is embedded with the trained model once, and kept in the run folder.

    Args:
        query: What to look for.
        run: A run folder that `unstale demo` or `unstale train` wrote.
        k: How many targets to show.
    """

    query: str
    run: str = "runs/demo"
    k: int = setting(5, least=1)


@dataclass(frozen=True)
class AnswerFlags(TrustFlags):
    """Answer a question with a trained retriever and reader, and show the sources.

    It shows the answer, the targets it was read from and their probabilities.

    Args:
        question: What to answer.
        run: A run folder that `unstale rag` wrote.
    """

    question: str
    run: str = "runs/rag"


@dataclass(frozen=True)
class ServeFlags(TrustFlags):
    """Try a run in the browser: the model before and after training, side by side.

    The corpus is embedded by both models once, and kept in the run folder.

    Args:
        run: A run folder that `unstale demo`, `train` or `rag` wrote, or a comparison's cell.
        port: The port to listen on; 0 for any that is free.
        k: How many targets to show on each side.
    """

    run: str
    port: int = setting(8000, least=0, most=2**16 - 1)
    k: int = setting(10, least=1)


@dataclass(frozen=True)
class ReportFlags:
    """Make one HTML page of a run's results: charts, table, examples of mined negatives.

    It writes report.html into the run folder: one file, no script, nothing loaded.

    Args:
        run: A run folder with a results.json.
    """

    run: str


@dataclass(frozen=True)
class VerifyFlags:
    """Check the checksums of a run folder, its checkpoints or a buffer.

    It reads every file that a manifest lists, and names each that is not as written.

    Args:
        path: A run folder, a checkpoint or a buffer; folders below it are checked, too.
    """

    path: str


@dataclass(frozen=True)
class DoctorFlags(OutputFlags, DataFlags, EncoderFlags):
    """Try your data for two minutes: what drifts, what correcting recovers, what to do.

    It trains shortly on a sample with the default strategy, and advises.

    Args:
        seconds: How long to take. It decides how many targets and queries are tried.
        steps: Steps of the training, instead of as many as there is time for.
        targets: The most targets to try with.
        batch_size: Queries in one step. Default: at most 64, as the time allows.
        output: A new or empty folder for results.json, if wanted.
    """

    seconds: float = setting(120.0, above=0)
    steps: int | None = setting(None, least=1)
    targets: int = setting(20_000, least=2)
    batch_size: int | None = setting(None, least=1)
    learning_rate: float | None = setting(None, least=0)
    seed: int = setting(0, least=0, most=MOST_SEED)


@dataclass(frozen=True)
class PlanFlags(EncoderFlags):
    """Work out memory, time and disk of a run before it is started.

    It measures this machine for some seconds, or takes --flops, and prints a table.

    Args:
        targets: How many targets there will be.
        batch_size: Queries in one step, over all devices.
        hard_negatives: Targets mined for each query.
        uniform_negatives: Targets drawn uniformly for each query.
        corrector_hidden: Width of the corrector's hidden layer.
        target_tokens: Tokens of a target, on average.
        query_tokens: Tokens of a query, on average.
        refreshes: How many times in the run exhaustive would re-embed everything.
        dtype: Precision of the embedded corpus.
        devices: How many processes share the work.
        device_memory: Gigabytes of each device, to see what fits; by default what is free on
            this one.
        bandwidth: Gigabytes a second between devices.
        flops: Sustained operations a second of a device, instead of measuring this one.
        parameters: Parameters of one tower of the encoder without its token table, if --flops is
            given.
        dim: Width of its embeddings, if --flops is given.
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
    """Bring old vectors up to date with a new encoder by embedding only a sample.

    It says what each way of serving would give and cost, and writes what --way asks for.

    Args:
        vectors: The old vectors, never modified: .npy, .safetensors, .parquet, .faiss, a buffer
            that `unstale embed` wrote, or a collection: `qdrant:PLACE#COLLECTION`,
            `lancedb:FOLDER#TABLE`, if need be with `?id=FIELD&vector=FIELD` at its end. Row by
            row they belong to the targets of the data, or id by id where rows have ids.
        old_model: The encoder that made the old vectors. It embeds queries for the old index, so
            that both models can rank.
        ids: A text file with the target id of each row, a line each, if the rows are in another
            order than the data.
        swap: Serve the new collection in place of the old one, which is kept, when it is written.
        data: The texts, and queries for the validation, in any format that unstale reads; a BEIR
            folder may lack qrels, or queries.
    """

    vectors: str = ""
    data: str = "docstrings"
    old_model: str | None = None
    ids: str | None = None
    swap: bool = setting(False, changeable=True)
