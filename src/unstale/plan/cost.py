"""The arithmetic of a run: operations, memory, disk and traffic for each strategy and search."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final

from unstale.miners import strategies
from unstale.miners.strategy import Strategy
from unstale.training.settings import usual_start, usually_held

_LANDMARKS = 2048
_RERANKED = 64  # rows a query that rolling and ivf correct exactly; a calibration times it
_PROBES = 32  # cells a query that ivf searches at first: assumed to stay


@final
@dataclass(frozen=True)
class Job:
    """What is to be trained, on how many devices."""

    targets: int  # N
    dim: int  # D
    hidden: int  # H, the corrector's hidden width
    batch: int  # queries a step, over all devices
    negatives: int  # targets for each query, mined and uniform
    parameters: float  # of the encoders that are trained, over all towers
    target_flops: float  # operations to encode one target, forward
    query_flops: float
    steps: int
    refreshes: int = 80  # re-embeddings of a strategy that is refreshed, in the run
    devices: int = 1
    buffer_bytes: int = 4  # of one number in the buffer: 4, 2 or 1
    static: bool = False  # the encoder averages token vectors

    @property
    def stored(self) -> float:
        """Return the bytes of the embedded corpus; int8 has a scale for each target."""
        scale = 4 if self.buffer_bytes == 1 else 0
        return float(self.targets * (self.dim * self.buffer_bytes + scale))

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
    """Sustained operations a second of one device, by kind of work.

    They differ by orders of magnitude: a static encoder is all memory traffic, a corrector all
    matrix products.
    """

    train: float  # of one more candidate
    encode: float
    scan: float
    correct: float
    rerank: float
    # Seconds of a step with however few candidates: the optimizer, the norm, and for an encoder
    # that is a table of tokens the gradient of all its rows.
    fixed: float
    bandwidth: float = 1e10  # bytes a second of the links between devices


@final
@dataclass(frozen=True)
class Cost:
    """What one way of training costs."""

    strategy: str
    search: str
    flops: float  # a step
    seconds: float  # a step
    memory: float  # bytes for each device
    traffic: float  # bytes for each device
    embedding: float  # seconds beyond the steps: once at the start, and every refresh
    run: float  # seconds of everything


def step_flops(job: Job, candidates: float | int) -> float:
    """Return the operations of encoding a step's queries and candidates, forward and backward."""
    return 3 * (job.batch * job.query_flops + candidates * job.target_flops)


def scan_flops(job: Job) -> float:
    """Return the operations of scoring every target for every query."""
    return 2.0 * job.targets * job.dim * job.batch


def correct_flops(job: Job) -> float:
    """Return the operations of h on every target: both layers, since its output is normalised.

    Example:
        >>> job = Job(10, 4, 8, 2, 0, 0.0, 0.0, 0.0, 1)
        >>> correct_flops(job)  # 10 targets, 2 * 4 * 8 in and 2 * 8 * 4 out
        1280.0
    """
    return 4.0 * job.targets * job.hidden * job.dim


def rerank_flops(job: Job) -> float:
    """Return the operations of what rolling and ivf add to a scan: h on a few rows a query."""
    corrected = 2.0 * job.batch * _RERANKED * job.hidden * 2 * job.dim
    return corrected + 2.0 * job.batch * _LANDMARKS * job.dim


def costs(job: Job, rates: Rates, ways: Iterable[Strategy] | None = None) -> list[Cost]:
    """Cost strategies, by default those whose costs differ, with every search that each has."""
    ways = ways or [strategy for strategy in strategies().values() if strategy.planned]
    found = []
    for strategy in ways:
        only = "exact" if strategy.caches else "none"
        modes = ("exact", "rolling", "ivf") if "search" in strategy.reads else (only,)
        found += [_cost(job, rates, strategy, mode) for mode in modes]
    return found


def _cost(job: Job, rates: Rates, strategy: Strategy, search: str) -> Cost:
    mining = 1.0  # the share of the steps that mine
    if strategy.cache == "later":
        mining -= usual_start(job.targets, static=job.static)
        held_targets = usually_held(job.targets, job.steps * job.batch, static=job.static)
        job = replace(job, targets=held_targets)
    rows = job.targets * job.dim / job.devices
    candidates = 2 * 4.0 * job.candidates * job.dim  # and their gradients
    labels = min(job.targets, job.batch)
    encoded = float(job.candidates if strategy.caches else labels)
    if strategy.cache == "later":
        mined = strategy.mined_for * strategy.negatives.hard
        encoded = min(float(job.targets), job.batch * (1 + mining * mined))
        mining *= strategy.mined_for  # a search costs as much less
    work = [(step_flops(job, encoded), rates.train)]  # operations, and how many a second
    held, passes = 0.0, 0.0  # bytes beyond the encoder's; embeddings of all targets
    if strategy.caches and mining:
        work.append((mining * _scanned(job, strategy, search), rates.scan))
        held, passes = job.stored / job.devices, 1.0
    if "refreshes" in strategy.reads:  # such a buffer is not int8
        held, passes = max(2 * rows, held), passes + job.refreshes
    if strategy.corrects and mining:
        held += 4 * rows + job.targets / job.devices  # residuals, and which are known
        held += 16.0 * job.network
        learned = mining * 6.0 * encoded * job.network
        if search == "exact":
            work.append((mining * correct_flops(job) + learned, rates.correct))
        else:
            held += job.stored / job.devices  # a copy of what is searched, and its norms
            held += (16 if search == "ivf" else 4) * job.targets / job.devices  # order and cells
            work += [(mining * rerank_flops(job), rates.rerank), (learned, rates.correct)]
    traffic = 4.0 * (job.batch * job.dim + job.parameters) + candidates if job.devices > 1 else 0.0
    seconds = sum(flops / rate for flops, rate in work) / job.devices
    seconds += traffic / rates.bandwidth + rates.fixed
    held += 16.0 * job.parameters + candidates  # weights, gradients and two moments, in float32
    embedding = passes * (job.targets * job.target_flops / rates.encode / job.devices)
    flops = sum(flops for flops, _ in work)
    run = seconds * job.steps + embedding
    return Cost(strategy.name, search, flops, seconds, held, traffic, embedding, run)


def _scanned(job: Job, strategy: Strategy, search: str) -> float:
    """Return the operations of a search on the vectors, h aside."""
    scan = scan_flops(job)
    if search == "ivf":
        cells = max(1.0, 4 * job.targets**0.5)
        return min(1.0, _PROBES / cells) * scan + 2.0 * job.batch * cells * job.dim
    # An exact search scans residuals, too; a rolling one holds them in its snapshot, and ivf ranks
    # only a few rows by them.
    return 2 * scan if strategy.corrects and search == "exact" else scan


def disk(job: Job) -> dict[str, float]:
    """Return the bytes of the buffer, and of a checkpoint of a corrected run.

    It holds residuals, which targets have one, and the cells of ivf. A rolling or IVF search that
    has renewed its snapshot stores that, too, as large as the buffer.
    """
    rows = float(job.targets * job.dim)
    state = 12.0 * (job.parameters + job.network)
    return {"buffer": job.stored, "checkpoint": state + 4 * rows + 9 * job.targets}


def choose(found: Sequence[Cost], memory: float | None) -> Cost | None:
    """Take the cheapest fresh way that fits: corrected as a rule, where re-embedding costs more."""
    ways = strategies().values()
    names = [way.name for way in ways if way.corrects or "refreshes" in way.reads]
    fresh = [c for c in found if c.strategy in names]
    once = min((c.embedding for c in fresh), default=0.0)
    fits = [c for c in fresh if memory is None or c.memory <= memory]
    return min(fits, key=lambda c: (c.embedding > 2 * once, c.seconds), default=None)
