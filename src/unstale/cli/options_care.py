"""The flags of what is done around a run: try, plan, verify and serve it."""

from dataclasses import dataclass
from typing import Literal

from unstale.cli.options import Encoder, Output


@dataclass(frozen=True)
class Plan(Encoder):
    """Plan. Measures this machine for some seconds, or takes --flops, and prints a table.

    Args:
        targets: How many targets there will be.
        steps: Optimizer steps of the run.
        batch_size: Queries a step, over all devices.
        hard_negatives: Targets mined for each query.
        uniform_negatives: Targets drawn uniformly for each query.
        corrector_hidden: Width of the corrector's hidden layer.
        target_tokens: Tokens of a target, on average.
        query_tokens: Tokens of a query, on average.
        refreshes: How many times in the run exhaustive would re-embed everything.
        dtype: How the buffer is stored.
        devices: How many processes share the work.
        device_memory: Gigabytes of each device, to see what fits; by default what is free on
            this one.
        bandwidth: Gigabytes a second between devices.
        flops: Sustained operations a second of a device, instead of measuring this one.
        parameters: Of one tower of the encoder without its token table, if --flops is given.
        dim: Width of its embeddings, if --flops is given.
        output: Also write the plan to this JSON file.
    """

    targets: int = 100_000
    steps: int = 10_000
    batch_size: int = 64
    hard_negatives: int = 4
    uniform_negatives: int = 1
    corrector_hidden: int = 768
    target_tokens: int = 128
    query_tokens: int = 16
    refreshes: int = 80
    dtype: Literal["float32", "float16", "int8"] = "float32"
    devices: int = 1
    device_memory: float | None = None
    bandwidth: float = 10.0
    flops: float | None = None
    parameters: float | None = None
    dim: int = 768
    output: str | None = None


@dataclass(frozen=True)
class Verify:
    """Verify. Reads every file that a manifest lists, and names each that is not as written.

    Args:
        path: A run folder, a checkpoint or a buffer; folders below it are checked, too.
    """

    path: str


@dataclass(frozen=True)
class Doctor(Output, Encoder):
    """Try. Trains shortly on a sample, stale, corrected-free and corrected, and advises.

    Args:
        data: Data in any format that unstale reads, a hub name, or a built-in set.
        seconds: About how long to take; a larger model than `tiny` is tried on fewer targets.
        steps: Steps of each training, instead of as many as there is time for.
        targets: The most targets to try with.
        batch_size: Queries a step.
        hard_negatives: Targets mined for each query, encoded or (corrected-free) not.
        uniform_negatives: Targets drawn uniformly for each query, and encoded.
        learning_rate: Of the encoders; default: 1e-3 for static embeddings, otherwise 2e-5.
        seed: The seed of data order, corrector and draws.
        output: A new or empty folder for results.json, if wanted.
    """

    data: str = "docstrings"
    seconds: float = 120.0
    steps: int | None = None
    targets: int = 20_000
    batch_size: int = 64
    hard_negatives: int = 4
    uniform_negatives: int = 1
    learning_rate: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Serve:
    """Serve. The corpus is embedded by both models once, and kept in the run folder.

    Args:
        run: A run folder that `unstale demo`, `train` or `rag` wrote, or a comparison's cell.
        host: The address to listen on; with any other than this, others can read the targets.
        port: The port to listen on; 0 for any that is free.
        k: How many targets to show on each side.
    """

    run: str
    host: str = "127.0.0.1"
    port: int = 8000
    k: int = 10


@dataclass(frozen=True)
class Completion:
    """Complete. The script knows every command and flag; loading it takes no time when you type.

    Args:
        shell: Which shell.
    """

    shell: Literal["bash", "zsh", "fish", "tcsh"]
