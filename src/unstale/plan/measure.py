"""How fast is this machine at each kind of work? A short calibration with the real parts."""

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import count
from statistics import median

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.data.dataset import Positives, Qrels, RetrievalDataset, Texts
from unstale.data.tokens import TokenStore
from unstale.encoders.embed import embed_targets, is_static, preprocess
from unstale.encoders.load import tower_modules
from unstale.encoders.tokenise import target_tokens
from unstale.miners import NegativeCounts, Negatives
from unstale.miners.uniform import Uniform
from unstale.plan.cost import Job, Rates, correct_flops, rerank_flops, scan_flops, step_flops
from unstale.search.exact import Exact
from unstale.search.rolling import Rolling
from unstale.training.algorithm1 import FreshNegativesLoss

_ROWS = 16_384  # of the buffer that is searched, at most; time grows with rows
_OPERATIONS = 5e9  # of a search through h that is timed, about
_TURNS = 5  # at most
_SECONDS = 4.0  # for each kind of work: after this no further turn is begun
_BATCH, _NEGATIVES, _ENCODED = 64, 7, 512  # at most: a larger step takes proportionally more
_WORDS = "river mountain engine violin planet bread castle spider winter market".split()


def encoder_flops(model: SentenceTransformer, tokens: int) -> float:
    """Return the operations of one forward pass over a text: two a weight and token.

    The token table is looked up, not multiplied; for a static encoder it is all there is.
    """
    tower = tower_modules(model, "document")
    if is_static(tower):
        return 2.0 * tokens * int(model.get_embedding_dimension() or 1)
    tables = {id(m.weight) for m in tower.modules() if isinstance(m, torch.nn.Embedding)}
    weights = sum(p.numel() for p in tower.parameters() if id(p) not in tables)
    return 2.0 * weights * tokens


def calibrate(
    model: SentenceTransformer, job: Job, tokens: int, bandwidth: float
) -> tuple[Rates, float]:
    """Time training steps, an encoding and each kind of search, and divide.

    Returns also by how much the same work varied: on a quiet machine, some percent.
    """
    negatives = min(max(1, job.negatives), _NEGATIVES)
    affordable = int(_SECONDS / 8 * _rate(model, tokens))  # targets that a turn can encode
    batch = max(2, min(job.batch, _BATCH, affordable // (3 * (1 + negatives))))
    trial = replace(job, batch=batch, negatives=negatives)
    dataset = _texts(4 * trial.batch * (1 + trial.negatives), trial.batch, tokens)
    store = target_tokens(model, dataset, progress=False)
    rows = np.arange(max(1, min(len(store), _ENCODED, affordable)))
    searchable = int(_OPERATIONS / correct_flops(replace(job, targets=1)))
    small = replace(job, targets=min(_ROWS, max(_ROWS // 4, searchable)))
    searched = _searching(model.device, small)
    trained, (fewer, more) = _training(model, dataset, store, trial.negatives)
    encoded = _timed(lambda: embed_targets(model, store, rows))
    every = [*encoded, *searched, *trained]
    encoding, scanning, correcting, rolling, few, many = map(median, every)
    train = (step_flops(trial, more) - step_flops(trial, fewer)) / max(many - few, 1e-3 * many)
    rates = Rates(
        train=train,
        encode=job.target_flops * len(rows) / encoding,
        scan=scan_flops(small) / scanning,
        correct=correct_flops(small) / max(correcting - scanning, 1e-9),
        rerank=rerank_flops(small) / max(rolling - scanning, 1e-9),
        fixed=max(0.0, few - step_flops(trial, fewer) / train),
        bandwidth=bandwidth,
    )
    return rates, max((max(t) - min(t)) / median(t) for t in every)


def _rate(model: SentenceTransformer, tokens: int) -> float:
    """Return how many targets a second the model embeds, from a few."""
    dataset = _texts(8, 1, tokens)
    store = target_tokens(model, dataset, progress=False)
    times = _timed(lambda: embed_targets(model, store, np.arange(8)))[0]
    return 8 / min(times)


def _searching(device: torch.device, job: Job) -> list[list[float]]:
    """Time a scan, an exact search through h, and a rolling one while h moves."""
    generator = torch.Generator().manual_seed(0)
    part = TargetBuffer([torch.randn(job.targets, job.dim, generator=generator).to(device)])
    queries = torch.randn(job.batch, job.dim, generator=generator).to(device)
    network = Corrector(job.dim, (job.hidden,), unit=True).to(device)
    drift = [1e-3 * torch.randn(w.shape, generator=generator) for w in network.parameters()]
    moving = deepcopy(network).requires_grad_(False)
    k, step = max(1, job.negatives), count()
    roll = Rolling(part, moving)

    def rolled() -> None:
        for weight, change in zip(moving.parameters(), drift, strict=True):
            weight.add_(change.to(device))
        roll.begin(next(step))
        roll.top_k(queries, k)

    rolled()  # the first reranks everything
    return _timed(
        lambda: Exact(part).top_k(queries, k),
        lambda: Exact(part, network).top_k(queries, k),
        rolled,
    )


def _training(
    model: SentenceTransformer, dataset: RetrievalDataset, tokens: TokenStore, negatives: int
) -> tuple[list[list[float]], list[int]]:
    """Time whole steps with the labels as candidates and with negatives too, and count those."""
    positives = Positives(dataset, ["train"])
    labels = torch.from_numpy(dataset.split("train").pairs).to(model.device)
    texts = dataset.queries.take(labels[:, 0].tolist())
    losses = []
    for drawn in (0, negatives):
        drawing = Negatives(Uniform(len(dataset.targets), 0), NegativeCounts(drawn, 0))
        losses.append(FreshNegativesLoss(model, drawing, tokens, positives))
    # The Trainer's default; a rate of zero costs as much, and changes nothing.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0, fused=True)

    def step(loss: FreshNegativesLoss) -> None:
        features = {
            k: v.to(model.device) if torch.is_tensor(v) else v
            for k, v in preprocess(model, texts, "query").items()
        }
        torch.stack(list(loss([features], labels).values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model.zero_grad()

    times = _timed(*(partial(step, loss) for loss in losses))
    turns = 1 + len(times[0])
    return times, [loss.record.counters.targets_trained // turns for loss in losses]


def _timed(*works: Callable[[], object]) -> list[list[float]]:
    """Return the seconds of each of some works, in turns, after one that warms up.

    There is at least one turn, and no further one when the time is up.
    """
    times: list[list[float]] = [[] for _ in works]
    began = time.perf_counter()
    for turn in range(1 + _TURNS):
        if turn > 1 and time.perf_counter() - began > _SECONDS:
            break
        for work, own in zip(works, times, strict=True):
            start = time.perf_counter()
            work()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            own += [time.perf_counter() - start] if turn else []
    return times


def _texts(targets: int, queries: int, tokens: int) -> RetrievalDataset:
    """Make up texts of about this many tokens, no two alike."""
    random = np.random.default_rng(0)
    words = random.choice(_WORDS, (targets, max(1, tokens - 3)))
    made = Texts.of([f"{i} {' '.join(row)}" for i, row in enumerate(words)])
    asked = Texts.of([f"which {row[0]} {i}" for i, row in enumerate(words[:queries])])
    pairs = np.arange(min(queries, targets))
    qrels = Qrels(query=pairs, target=pairs, grade=np.ones_like(pairs))
    ids = Texts.of([str(i) for i in range(targets)])
    return RetrievalDataset("calibration", ids, made, ids, asked, {"train": qrels})
