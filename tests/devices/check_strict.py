"""Is the strict device strict, and do searches on it wait? python -m tests.devices.check_strict."""

import pytest
import torch
from tests.devices.strict import NAME, open_strict

from unstale.buffer.buffer import TargetBuffer
from unstale.corrector.memory import ResidualMemory
from unstale.corrector.network import Corrector
from unstale.search.added import Added
from unstale.search.exact import Exact


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


if __name__ == "__main__":
    open_strict()
    check_refusal()
    check_waits()
