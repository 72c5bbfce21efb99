"""What a device may do, and what a user's choice changes."""

import pytest
import torch

from unstale.evaluation.nearest import full_products
from unstale.machine import allow_tf32


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
