"""The planner's operations, and the table in docs/scaling.md, against counted operations."""

from pathlib import Path

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
from unstale.plan.cost import Job, correct_flops, scan_flops, step_flops

SMALL = Job(
    targets=500, dim=12, hidden=40, batch=6, negatives=3,
    parameters=0.0, target_flops=0.0, query_flops=0.0, steps=1,
)  # fmt: skip
TOKENS, WEIGHTS = 128, 85e6
PAPER = Job(
    targets=21_000_000, dim=768, hidden=8192, batch=128, negatives=128, parameters=2 * WEIGHTS,
    target_flops=2 * WEIGHTS * TOKENS, query_flops=2 * WEIGHTS * TOKENS, steps=40_000,
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


def test_the_documented_table_is_this_arithmetic() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "scaling.md").read_text()
    buffer = 4 * PAPER.targets * PAPER.dim
    hidden = 4 * PAPER.targets * PAPER.hidden
    rows = {
        "Encode queries and candidates": (step_flops(PAPER, PAPER.candidates), None),
        "Scan the buffer (stale)": (scan_flops(PAPER), buffer),
        "Correct every target (exact)": (correct_flops(PAPER), buffer + 2 * hidden),
        "Scan the residuals (exact)": (scan_flops(PAPER), buffer),
        "Train the corrector": (learn_flops(PAPER), 16 * PAPER.network),
    }
    for name, (flops, moved) in rows.items():
        line = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
        assert f"| {flops:.1e} |" in line, (line, flops)
        assert moved is None or f"| {moved / 1e9:,.0f} GB |" in line, (line, moved)
