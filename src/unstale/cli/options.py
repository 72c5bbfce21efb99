"""The flags of commands that train, embed, measure or write data, as dataclasses.

Settings that Python has too are declared in `unstale.settings`, and inherited here. A command's
class is named after it: the first sentence of its docstring is the summary in `unstale --help`.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from unstale.declare import MOST_SEED, setting
from unstale.engine import EngineSettings
from unstale.rag.settings import RagSettings
from unstale.settings import FilterSettings, HoldoutSettings, Precision, TrainSections


@dataclass(frozen=True, kw_only=True)
class TrustFlags:
    """Machine: where to run.

    Args:
        trust_remote_code: Let the model run its own code, from the hub or from its folder. Give
            this flag on every call: no config file and no run folder can give it.
    """

    trust_remote_code: bool = setting(False, changeable=True, local=True)


@dataclass(frozen=True)
class MachineFlags(TrustFlags):
    """Machine: where to run.

    Args:
        device: cpu, cuda or mps. Default: an accelerator if there is one.
    """

    device: str | None = setting(None, changeable=True, local=True)


@dataclass(frozen=True)
class ShapeFlags(MachineFlags):
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
    layers: int | None = setting(None, least=1)
    query_prompt: str | None = None
    target_prompt: str | None = None
    query_max_length: int | None = setting(None, least=1)
    target_max_length: int | None = setting(None, least=1)


@dataclass(frozen=True)
class EncoderFlags(ShapeFlags):
    """Encoder: which one.

    Args:
        model: Encoder to load: `tiny` (built in, made for a CPU), a sentence-transformers folder,
            or a hub name.
    """

    model: str = "tiny"


@dataclass(frozen=True)
class DropoutFlags:
    """Encoder: while it is trained.

    Args:
        dropout: Keep the models' dropout while training. It is off by default, because the
            corrector would learn its noise.
    """

    dropout: bool = False


@dataclass(frozen=True)
class WholeFlags:
    """Evaluation: of a model of which only a part is trained.

    Args:
        measure_whole: With --layers or a maximum length, also measure the model with nothing cut,
            for the table. This embeds the corpus once more.
    """

    measure_whole: bool = setting(True, changeable=True)


@dataclass(frozen=True)
class DataFlags:
    """Data: what to work on.

    Args:
        data: Dataset in any format that unstale reads (BEIR, DPR, csv, ...), a hub name, or the
            built-in docstrings. docstrings:numpy,rich builds that from the packages named.
        strict: Refuse blank rows, empty cells and duplicates in a table instead of skipping them.
    """

    data: str = setting("docstrings", local=True)
    strict: bool = False


@dataclass(frozen=True)
class OutputFlags:
    """Output: where results go.

    Args:
        output: Folder for the results. It must be new or empty.
        overwrite: Replace a folder that an earlier unstale command wrote.
    """

    output: str = setting("", changeable=True, local=True)
    overwrite: bool = setting(False, changeable=True, local=True)


@dataclass(frozen=True)
class ResumeFlags(OutputFlags):
    """Output: where results go.

    Args:
        resume: Resume an interrupted run in the output folder. No other flag is needed.
    """

    resume: bool = setting(False, changeable=True, local=True)


@dataclass(frozen=True)
class TrainFlags(ResumeFlags, TrainSections, WholeFlags, DropoutFlags, DataFlags, EncoderFlags):
    """Train a retriever with hard negatives that are fresh at every step (Algorithm 1).

    It writes results.json, config.yaml, model/ (plain sentence-transformers) and a TREC run.
    """


@dataclass(frozen=True)
class CompareFlags(TrainFlags):
    """Compare strategies over seeds from identical starts, with significance.

    Resume an interrupted comparison with --resume; finished runs are kept.

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
class RagFlags(ResumeFlags, RagSettings, DropoutFlags, ShapeFlags):
    """Train a retriever and a reader together from questions and answers (Algorithm 2).

    It writes results.json, config.yaml, model/ (the retriever) and reader/.

    Args:
        data: Questions with answers: a .csv, .tsv, .jsonl or .parquet file with columns question
            and answer (or PATH:question=COLUMN,answer=COLUMN), a folder of train/dev/test files,
            a BEIR folder with `metadata.answers`, or the built-in `facts`.
        corpus: Texts to answer from: a folder of .txt and .md files, which are cut into passages
            of at most 100 words, or one file (.txt, .md, .jsonl, .csv, .tsv, .parquet). Default:
            the corpus file in the data folder, or the contexts of the questions.
        strict: Refuse blank rows, empty cells and duplicates in a table instead of skipping them.
        retriever: Retriever to load: `tiny` (built in, made for a CPU), a sentence-transformers
            folder or hub name.
        reader: Reader to load: `tiny` (a small untrained T5), or the folder or hub name of a model
            with an encoder and a decoder, such as T5, or a decoder only, such as Llama.
        reader_max_length: Truncate a target after N tokens. The question is never cut.
        answer_length: Largest number of tokens of an answer.
        reader_lora: Train adapters of this rank in the reader instead of its weights (LoRA; needs
            peft). The saved reader has them added to its weights. 0 trains all weights.
    """

    data: str = setting("facts", local=True)
    corpus: str | None = setting(None, local=True)
    strict: bool = False
    retriever: str = "tiny"
    reader: str = "tiny"
    reader_max_length: int = setting(256, least=2)
    answer_length: int = setting(64, least=1)
    reader_lora: int = setting(0, least=0)

    @property
    def model(self) -> str:
        """The encoder, by the name that other commands have for it."""
        return self.retriever


@dataclass(frozen=True)
class DemoFlags:
    """See the gain in minutes: stale against corrected training on built-in data.

    It builds the data, embeds it once, and trains twice from the same start.

    Args:
        output: Folder for the results. What an earlier demo wrote there is replaced.
        steps: Number of optimizer steps of each training.
    """

    output: str = "runs/demo"
    steps: int = setting(300, least=1)
    seed: int = setting(0, least=0, most=MOST_SEED)


@dataclass(frozen=True)
class EmbedFlags(ResumeFlags, DataFlags, EngineSettings, EncoderFlags):
    """Embed a corpus once, into a buffer that later jobs reuse.

    It writes the buffer as safetensors shards and a manifest.

    Args:
        dtype: Precision of the embeddings: float32, float16 for half the size, or int8 with a
            scale for each row for a quarter.
        shard_rows: Targets in one shard. An interruption costs at most one shard.
        tokens_per_batch: Largest number of tokens in one forward pass. Default: 4,096 for a
            transformer on a CPU, otherwise 16,384.
        shard: Embed only part I of N, e.g. 0/8, as one task of a job array. Parts may run at the
            same time and in any order. Afterwards, run once with --resume and without --shard.
    """

    dtype: Precision = "float32"
    shard_rows: int = setting(16_384, least=1)
    tokens_per_batch: int | None = setting(None, least=1)
    shard: str | None = setting(None, changeable=True)


@dataclass(frozen=True)
class EvaluateFlags(OutputFlags, HoldoutSettings, DataFlags, EncoderFlags):
    """Measure a model on a dataset: recall, MRR, nDCG.

    It writes results.json and a TREC run file.

    Args:
        split: Split to evaluate on, or several separated by commas. One without qrels is measured
            by its answers.
    """

    split: str = "test"


@dataclass(frozen=True)
class MineFlags(OutputFlags, HoldoutSettings, FilterSettings, EngineSettings, EncoderFlags):
    """Mine hard negatives with a model or a run, and write them in any format.

    It writes every split and the whole corpus, the mined negatives with one split.

    Args:
        data: Dataset in any format that unstale reads. Default with --run: the data of the run.
        split: Split whose queries to mine for.
        run: Mine with the corrected embeddings of a training run; the model is the run's. With
            --model RUN/model the targets are embedded anew instead.
        hard_negatives: Negatives to mine for each query.
        format: Format to write; see `unstale convert`. csv, jsonl, parquet and hf have a row of
            query, positive, negative_1, ... for each pair.
        short: What to do with queries for which fewer negatives were found: drop them, pad with
            their last negative, refill at random, or keep them as they are. Default: drop where
            each negative has a column of its own (csv, jsonl, parquet, hf), otherwise keep.
    """

    data: str = ""
    split: str = "train"
    run: str | None = None
    hard_negatives: int = setting(4, least=1)
    format: str = "jsonl"
    short: Literal["drop", "pad", "refill", "keep"] | None = None
    buffer: str | None = None


@dataclass(frozen=True)
class ConvertFlags(OutputFlags):
    """Write a dataset in another format.

    It prints what the new format cannot store.

    Args:
        data: Dataset to convert: [FORMAT:]PATH[:ROLE=COLUMN,...], a hub name, or a built-in set.
        to: Format to write: beir, msmarco, hf, dpr, fid, tevatron, tevatron-inline,
            flagembedding, csv, jsonl or parquet.
    """

    data: str = ""
    to: str = "beir"
