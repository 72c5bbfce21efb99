"""How fast is this machine at each kind of work? A short calibration with the real parts."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.network import Corrector
from unstale.data.dataset import Positives, Qrels, RetrievalDataset, Texts
from unstale.encoders.embed import embed_targets, preprocess
from unstale.encoders.load import tower_modules
from unstale.encoders.tokenise import target_tokens
from unstale.miners.uniform import Uniform
from unstale.plan.cost import Job, Rates, correct_flops, scan_flops, step_flops
from unstale.search.exact import Exact
from unstale.training.algorithm1 import FreshNegativesLoss

_ROWS = 16_384  # of the buffer that is searched; time grows with rows
_WORDS = "river mountain engine violin planet bread castle spider winter market".split()


def encoder_flops(model: SentenceTransformer, tokens: int) -> float:
    """Return the operations of one forward pass over a text: two a weight and token.

    The token table is looked up, not multiplied; for a static encoder it is all there is.
    """
    tower = tower_modules(model, "document")
    if any(isinstance(m, StaticEmbedding) for m in tower.modules()):
        return 2.0 * tokens * int(model.get_embedding_dimension() or 1)
    tables = {id(m.weight) for m in tower.modules() if isinstance(m, torch.nn.Embedding)}
    weights = sum(p.numel() for p in tower.parameters() if id(p) not in tables)
    return 2.0 * weights * tokens


def calibrate(model: SentenceTransformer, job: Job, tokens: int, bandwidth: float) -> Rates:
    """Time a training step, an encoding, a scan and a correction, and divide."""
    dataset = _texts(max(job.candidates, 512), job.batch, tokens)
    store = target_tokens(model, dataset, progress=False)
    rows = np.arange(len(store))
    encoding = _seconds(lambda: embed_targets(model, store, rows)) / len(rows)
    generator = torch.Generator().manual_seed(0)
    device = model.device
    part = TargetBuffer([torch.randn(_ROWS, job.dim, generator=generator).to(device)])
    queries = torch.randn(job.batch, job.dim, generator=generator).to(device)
    network = Corrector(job.dim, (job.hidden,)).to(device)
    scanning = _seconds(lambda: Exact(part).top_k(queries, 16))
    correcting = _seconds(lambda: Exact(part, network).top_k(queries, 16)) - scanning
    small = replace(job, targets=_ROWS)
    training, updating = _training(model, dataset, job)
    return Rates(
        train=step_flops(job) / training,
        update=job.parameters / updating,
        encode=job.target_flops / encoding,
        scan=scan_flops(small) / scanning,
        correct=correct_flops(small) / max(correcting, 1e-9),
        bandwidth=bandwidth,
    )


def _training(
    model: SentenceTransformer, dataset: RetrievalDataset, job: Job
) -> tuple[float, float]:
    """Time a step with uniform negatives, without and then only its optimizer."""
    loss = FreshNegativesLoss(
        model,
        Uniform(len(dataset.targets), 0),
        target_tokens(model, dataset, progress=False),
        Positives(dataset, ["train"]),
        hard_negatives=job.negatives,
    )
    # The Trainer's default; a rate of zero costs as much, and changes nothing.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)
    labels = torch.from_numpy(dataset.split("train").pairs).to(model.device)
    texts = dataset.queries.take(labels[:, 0].tolist())

    def step() -> None:
        features = preprocess(model, texts, "query")
        features = {k: v.to(model.device) if torch.is_tensor(v) else v for k, v in features.items()}
        torch.stack(list(loss([features], labels).values())).sum().backward()

    def update() -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return _seconds(step), _seconds(update)


def _seconds(work: Callable[[], object]) -> float:
    """Return the least of three times, after one that warms up: what disturbs only adds."""
    work()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return min(times)


def _texts(targets: int, queries: int, tokens: int) -> RetrievalDataset:
    """Make up texts of about so many tokens, no two alike."""
    random = np.random.default_rng(0)
    words = random.choice(_WORDS, (targets, max(1, tokens - 3)))
    made = Texts.of([f"{i} {' '.join(row)}" for i, row in enumerate(words)])
    asked = Texts.of([f"which {row[0]} {i}" for i, row in enumerate(words[:queries])])
    pairs = np.arange(min(queries, targets))
    qrels = Qrels(query=pairs, target=pairs, grade=np.ones_like(pairs))
    ids = Texts.of([str(i) for i in range(targets)])
    return RetrievalDataset("calibration", ids, made, ids, asked, {"train": qrels})
