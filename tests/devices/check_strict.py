"""Is the strict device strict, and do searches on it wait? python -m tests.devices.check_strict."""

import os
import tempfile

import pytest
import torch
from tests.devices.strict import NAME, open_strict

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.miners import Corrected, Queries
from unstale.miners.part import PartOfCorpus
from unstale.search.added import Added
from unstale.search.exact import Exact
from unstale.search.snapshot import Snapshot


def check_refusal() -> None:
    here, there = torch.ones(2, 2, device=NAME), torch.ones(2, 2)
    for bad in (lambda: here @ there, lambda: torch.cat([here, there]), lambda: there[here.long()]):
        with pytest.raises(RuntimeError, match=r"same device|indices"):
            bad()
    assert (here * torch.tensor(2.0)).device.type == NAME  # a number may come from anywhere


def check_waits() -> None:
    """A search of many chunks waits for the device no more often than one of few."""
    strict, waited = open_strict(), {}
    torch.manual_seed(0)
    vectors, queries = torch.randn(4000, 16), torch.randn(8, 16)
    exclude = torch.zeros(8, 1, dtype=torch.long)
    for unit in (False, True):
        network = Corrector(16, (32,), unit=unit)
        with torch.no_grad():
            network.last.weight.normal_(std=0.2)
        memory = ResidualMemory(4000, 16)
        memory.write(torch.arange(0, 4000, 7), torch.randn(572, 16))
        expected = None
        for device, chunk in (("cpu", None), (NAME, 1000), (NAME, 50)):
            network.to(device)
            moved = ResidualMemory(4000, 16, device=device)
            moved.write(torch.arange(0, 4000, 7), memory.residual[::7])
            asked = queries.to(device)
            added = Added(3, asked, torch.arange(8, device=device), moved, gumbel_seed=1, scale=9.0)
            search = Exact(TargetBuffer([vectors.to(device)]), network, chunk)
            before = strict.waits()
            found = search.top_k(asked, 20, exclude.to(device), added)
            waited[unit, device, chunk] = strict.waits() - before
            rows = found.rows.cpu()
            assert expected is None or torch.equal(rows, expected), (unit, device, chunk)
            expected = rows
        assert waited[unit, NAME, 50] == waited[unit, NAME, 1000] <= 2, waited


def check_renewal() -> None:
    """A snapshot in half precision waits as often for many rows as for few."""
    strict, waited = open_strict(), []
    for rows in (1000, 9000):
        buffer = TargetBuffer([torch.randn(rows, 16, device=NAME)])
        snapshot = Snapshot(buffer, Corrector(16, (32,)).to(NAME), "float16")
        snapshot.open_pass()
        before = strict.waits()
        snapshot.renew(rows)
        waited.append(strict.waits() - before)
        assert snapshot.complete()
    assert waited[0] == waited[1], waited


def check_learning() -> None:
    """What a part of the corpus learns from a step waits for the device twice: here, and here."""
    strict = open_strict()
    torch.manual_seed(0)
    part = torch.arange(0, 4000, 2, device=NAME)
    buffer = TargetBuffer([torch.randn(len(part), 16, device=NAME)])
    network = Corrector(16, (32,)).to(NAME)
    memory = ResidualMemory(len(part), 16, device=NAME)
    miner = PartOfCorpus(Corrected(buffer, network, memory=memory), part)
    rows, fresh = torch.arange(0, 60, 3, device=NAME), torch.randn(20, 16, device=NAME)
    asked = Queries(torch.randn(4, 16, device=NAME), rows[:4], rows[:4, None], step=0)
    before = strict.waits()
    miner.loss(asked, fresh, rows, torch.ones(4, 20, dtype=torch.bool, device=NAME)).backward()
    assert strict.waits() - before <= 2, strict.waits() - before  # which it holds; which it keeps
    assert memory.known.sum() == 10


def check_script(folder: str) -> None:
    """Fresh negatives in a script train on the device, and must be made where it trains."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer as Trainer
    from sentence_transformers import SentenceTransformerTrainingArguments as Arguments

    from unstale import FreshNegatives
    from unstale.encoders.load import load_encoder
    from unstale.errors import InputError

    words = [f"word{i} of number {i % 7}" for i in range(40)]
    data = Dataset.from_dict({"query": words, "positive": [f"the {word}" for word in words]})
    arguments = Arguments(folder, max_steps=3, per_device_train_batch_size=4, report_to="none")
    settings = {"strategy": "exhaustive", "steps": 3, "refreshes": 2, "progress": False}
    for device in (NAME, "cpu"):
        model = load_encoder("tiny", device=device)
        fresh = FreshNegatives(model, data, **settings)
        trainer = Trainer(model, arguments, fresh.dataset, loss=fresh.loss)
        if device == "cpu":
            with pytest.raises(InputError, match="load it there first"):
                fresh.attach(trainer)
        else:
            fresh.attach(trainer).train()
            assert fresh.loss.algorithm.record.counters.targets_reembedded == 80


if __name__ == "__main__":
    open_strict()
    check_refusal()
    check_waits()
    check_renewal()
    check_learning()
    os.environ["ACCELERATE_TORCH_DEVICE"] = f"{NAME}:0"
    with tempfile.TemporaryDirectory() as place:
        check_script(place)
