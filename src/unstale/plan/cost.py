"""The arithmetic of a run: operations, memory, disk and traffic for each strategy and search."""

from dataclasses import dataclass
from typing import final

_LANDMARKS = 2048
_RERANKED = 64  # rows a query that rolling and ivf correct exactly; a calibration times it
_PROBES = 32  # cells a query that ivf searches at first: assumed to stay


@final
@dataclass(frozen=True)
class Job:
    """What is to be trained, on how many devices.

    Args:
        targets: N.
        dim: D.
        hidden: H, the corrector's hidden width.
        batch: Queries a step, over all devices.
        negatives: Targets for each query, mined and uniform.
        parameters: Of the encoders that are trained, over all towers.
        target_flops: Operations to encode one target, forward.
        query_flops: The same for a query.
        steps: Of the run.
        refreshes: How often exhaustive re-embeds.
        devices: How many share the work.
        buffer_bytes: Of one number in the buffer: 4, 2 or 1.
    """

    targets: int
    dim: int
    hidden: int
    batch: int
    negatives: int
    parameters: float
    target_flops: float
    query_flops: float
    steps: int
    refreshes: int = 80
    devices: int = 1
    buffer_bytes: int = 4

    @property
    def candidates(self) -> int:
        """Return the size of the softmax, at most: mined targets that meet count once."""
        return min(self.targets, self.batch * (1 + self.negatives))

    @property
    def network(self) -> int:
        """Count the corrector's weights."""
        return 2 * self.dim * self.hidden + self.hidden + self.dim


@final
@dataclass(frozen=True)
class Rates:
    """Sustained operations a second of one device, by kind of work, and its links' bytes a second.

    They differ by orders of magnitude: a static encoder is all memory traffic, a corrector all
    matrix products. `train` is that of one more candidate; what a step takes with however few of
    them is `fixed`, in seconds: the optimizer, the norm, and for an encoder that is a table of
    tokens the gradient of all its rows.
    """

    train: float
    encode: float
    scan: float
    correct: float
    rerank: float
    fixed: float
    bandwidth: float = 1e10


@final
@dataclass(frozen=True)
class Cost:
    """What one way of training costs.

    `memory` and `traffic` are bytes for each device, `flops` and `seconds` a step, `embedding`
    seconds over the run beyond the steps: once at the start, and every refresh.
    """

    strategy: str
    search: str
    flops: float
    seconds: float
    memory: float
    traffic: float
    embedding: float

    def total(self, steps: int) -> float:
        """Return the seconds of the whole run."""
        return self.seconds * steps + self.embedding


def step_flops(job: Job, candidates: int | None = None) -> float:
    """Return the operations of encoding a step's queries and candidates, forward and backward."""
    count = job.candidates if candidates is None else candidates
    return 3 * (job.batch * job.query_flops + count * job.target_flops)


def scan_flops(job: Job) -> float:
    """Return the operations of scoring every target for every query."""
    return 2.0 * job.targets * job.dim * job.batch


def correct_flops(job: Job) -> float:
    """Return the operations of h on every target; its output layer may move to the queries.

    Example:
        >>> job = Job(10, 4, 8, 2, 0, 0.0, 0.0, 0.0, 1)
        >>> correct_flops(job)  # 10 targets, 2 * 4 * 8 in and 2 * 8 * 2 out
        960.0
    """
    return 2.0 * job.targets * job.hidden * (job.dim + min(job.dim, job.batch))


def rerank_flops(job: Job) -> float:
    """Return the operations of what rolling and ivf add to a scan: h on a few rows a query."""
    corrected = 2.0 * job.batch * _RERANKED * job.hidden * 2 * job.dim
    return corrected + 2.0 * job.batch * _LANDMARKS * job.dim


def costs(job: Job, rates: Rates) -> list[Cost]:
    """Cost every strategy that differs, and every way to search h(B)."""
    n, d, batch = job.targets, job.dim, job.batch
    exact, scan = correct_flops(job), scan_flops(job)
    cells = max(1.0, 4 * n**0.5)
    probed = min(1.0, _PROBES / cells) * scan + 2.0 * batch * cells * d
    rows = n * d / job.devices
    encoder = 16.0 * job.parameters  # weights, gradients and two moments, in float32
    candidates = 2 * 4.0 * job.candidates * d  # and their gradients
    buffer, memory = job.buffer_bytes * rows, 4 * rows + 8 * n / job.devices
    corrector = 16.0 * job.network
    modes = {
        "exact": (2 * scan, {"correct": exact}, 0.0),  # residuals, too; others rank few by them
        "rolling": (scan, {"rerank": rerank_flops(job)}, 4 * rows),
        "ivf": (probed, {"rerank": rerank_flops(job)}, 4 * rows),
    }
    share = 4.0 * (batch * d + job.parameters) + candidates if job.devices > 1 else 0.0
    train = step_flops(job)
    passes = n * job.target_flops / rates.encode / job.devices  # seconds to embed all targets

    def cost(
        strategy: str, search: str, work: dict[str, float], held: float, embedded: float
    ) -> Cost:
        speed = vars(rates)
        seconds = sum(flops / speed[kind] for kind, flops in work.items()) / job.devices
        seconds += share / rates.bandwidth + rates.fixed
        held += encoder + candidates
        return Cost(strategy, search, sum(work.values()), seconds, held, share, embedded * passes)

    stale = {"train": train, "scan": scan}

    def corrected(strategy: str, search: str, encoded: int) -> Cost:
        scanned, mlp, copy = modes[search]
        work = {"train": step_flops(job, encoded), "scan": scanned, **mlp}
        work["correct"] = work.get("correct", 0.0) + 6.0 * encoded * job.network
        return cost(strategy, search, work, buffer + memory + corrector + copy, 1.0)

    return [
        cost("in-batch", "none", {"train": step_flops(job, batch)}, 0.0, 0.0),
        cost("stale", "exact", stale, buffer, 1.0),
        *(corrected("corrected", search, job.candidates) for search in modes),
        *(corrected("corrected-free", search, batch) for search in modes),  # labels alone
        # A buffer that is refreshed is not int8.
        cost("exhaustive", "exact", stale, max(2 * rows, buffer), 1.0 + job.refreshes),
    ]


def disk(job: Job) -> dict[str, float]:
    """Return the bytes of the buffer, and of a checkpoint of a corrected run."""
    rows = float(job.targets * job.dim)
    state = 12.0 * (job.parameters + job.network)
    return {"buffer": job.buffer_bytes * rows, "checkpoint": state + 4 * rows + 8 * job.targets}


def choose(found: list[Cost], memory: float | None) -> Cost | None:
    """Take the cheapest fresh way that fits: corrected as a rule, where re-embedding costs more."""
    fresh = [c for c in found if c.strategy in ("corrected", "corrected-free", "exhaustive")]
    fits = [c for c in fresh if memory is None or c.memory <= memory]
    return min(fits, key=lambda c: (c.embedding > 2 * fresh[0].embedding, c.seconds), default=None)
