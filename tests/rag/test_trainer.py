"""What the underlying Trainer is told goes through Algorithm 2 as well: parts of a batch, bf16."""

from pathlib import Path

import pytest
import torch
from tests.rag.test_job import SMALL

from unstale.rag.job import train_rag
from unstale.rag.trainer import RagTrainer


def test_accumulated_gradients_are_the_mean_of_their_parts(
    start, questions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grads: list[dict[str, torch.Tensor]] = []
    plain = RagTrainer._clip_grad_norm

    def watch(self: RagTrainer, model):
        named = self.algorithm.named_parameters()
        grads.append({k: p.grad.clone() for k, p in named if p.grad is not None})
        return plain(self, model)

    monkeypatch.setattr(RagTrainer, "_clip_grad_norm", watch)
    options = SMALL | {"learning_rate": 0.0, "corrector_lr": 0.0, "reader_lr": 1e-30}
    options |= {"memory": False, "meter_steps": 1000, "batch_size": 4}  # nothing moves
    train_rag(questions, *start(), tmp_path / "parts", **options | {"steps": 2})
    parts = options | {"steps": 1, "trainer": {"gradient_accumulation_steps": 2}}
    train_rag(questions, *start(), tmp_path / "whole", **parts)
    first, second, whole = grads
    assert {name.partition(".")[0] for name in whole} == {"model", "reader", "miner"}
    for name, grad in whole.items():
        torch.testing.assert_close((first[name] + second[name]) / 2, grad, atol=1e-6, rtol=1e-4)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("fusion", ["marginal", pytest.param("fid", marks=pytest.mark.slow)])
def test_mixed_precision_leaves_losses_in_full(start, questions, tmp_path: Path, fusion) -> None:
    options = SMALL | {"steps": 3, "fusion": fusion, "learning_rate": 1e-3}
    full = train_rag(questions, *start(), tmp_path / "full", **options)
    half = train_rag(questions, *start(), tmp_path / "half", **options, trainer={"bf16": True})
    first, second = (r.freshness[-1]["kl_stale"] for r in (half, full))
    assert first == pytest.approx(second, rel=0.3)
    assert first != second  # the models did run in half precision
