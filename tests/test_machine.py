"""What a device may do, and what a user's choice changes."""

from pathlib import Path

import pytest
import torch

from unstale import machine
from unstale.errors import InputError
from unstale.evaluation.nearest import full_products
from unstale.machine import allow_tf32, check_fits, free_memory


@pytest.mark.parametrize(
    ("device", "asked", "expected"),
    [("cuda", None, "high"), ("cuda", True, "high"), ("cuda", False, "highest"),
     ("cpu", None, "highest"), ("mps", None, "highest")],
)  # fmt: skip
def test_tf32_is_for_cuda_unless_it_is_refused(
    device: str, asked: bool | None, expected: str
) -> None:
    assert torch.get_float32_matmul_precision() == "highest"
    try:
        allow_tf32(torch.device(device), asked)
        assert torch.get_float32_matmul_precision() == expected
        with full_products():  # the scores of an evaluation
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == expected
    finally:
        torch.set_float32_matmul_precision("highest")


def test_a_container_leaves_less_than_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu, host = torch.device("cpu"), free_memory(torch.device("cpu"))
    monkeypatch.setattr(machine, "_GROUP", tmp_path)
    written = {"max": "max\n", "current": "900000\n", "stat": "anon 1\ninactive_file 400000\n"}
    for name, text in written.items():
        (tmp_path / f"memory.{name}").write_text(text)
    assert free_memory(cpu) == pytest.approx(host, rel=0.3)  # no limit
    (tmp_path / "memory.max").write_text("1000000\n")
    assert free_memory(cpu) == 1_000_000 - 900_000 + 400_000
    with pytest.raises(InputError, match=r"the buffer needs 0\.0006 GB, and 0\.0005 are free"):
        check_fits("the buffer", 600_000, cpu, "use int8")
