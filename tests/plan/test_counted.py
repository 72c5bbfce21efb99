"""The planner's operations, against counted operations."""

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch.utils.flop_counter import FlopCounterMode

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.encoders.embed import embed, preprocess
from unstale.encoders.load import tower_modules
from unstale.miners import Corrected, Queries
from unstale.plan.cost import Job, correct_flops, scan_flops

SMALL = Job(
    targets=500, dim=12, hidden=40, batch=6, negatives=3,
    parameters=0.0, target_flops=0.0, query_flops=0.0, steps=1,
)  # fmt: skip


def learn_flops(job: Job) -> float:
    """Two layers forward, their weights backward, and the input of the second."""
    return 10.0 * job.candidates * job.dim * job.hidden


def counted(work) -> int:
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def miner(*, unit: bool = True) -> Corrected:
    torch.manual_seed(0)
    memory = ResidualMemory(SMALL.targets, SMALL.dim)
    memory.write(torch.arange(SMALL.targets), torch.randn(SMALL.targets, SMALL.dim))
    network = Corrector(SMALL.dim, (SMALL.hidden,), unit=unit)
    return Corrected(TargetBuffer([torch.randn(SMALL.targets, SMALL.dim)]), network, memory=memory)


def queries() -> Queries:
    rows = torch.arange(SMALL.batch)
    return Queries(torch.randn(SMALL.batch, SMALL.dim), rows, rows[:, None] - SMALL.batch, 0)


def test_searches_and_the_correctors_step() -> None:
    made, asked = miner(), queries()
    assert counted(lambda: made._stale.mine(asked, 5)) == scan_flops(SMALL)
    # The scan of h(B), and that of the residuals.
    assert counted(lambda: made.mine(asked, 5)) == correct_flops(SMALL) + 2 * scan_flops(SMALL)
    rows = torch.arange(SMALL.candidates)
    fresh = torch.randn(len(rows), SMALL.dim)
    assert counted(lambda: made.loss(asked, fresh, rows, None).backward()) == learn_flops(SMALL)


def test_the_encoder(bert_model: SentenceTransformer) -> None:
    """Two operations for each weight and token, and twice that backward; attention adds little."""
    features = preprocess(bert_model, ["one two three four five six seven eight"] * 4, "document")
    tokens = features["input_ids"].numel()
    layers = tower_modules(bert_model, "document")[0].model.encoder
    forward = 2 * tokens * sum(p.numel() for p in layers.parameters() if p.dim() == 2)
    step = counted(lambda: embed(bert_model, features, "document", unit=True).sum().backward())
    assert step == pytest.approx(3 * forward, rel=0.15)
