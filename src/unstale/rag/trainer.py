"""transformers' Trainer for Algorithm 2: three learning rates, two clips, whole checkpoints."""

from pathlib import Path
from typing import Any, final

import torch
from datasets import Dataset
from safetensors.torch import load_model, save_model
from torch import Tensor, nn
from transformers import TrainingArguments

from unstale.rag.algorithm2 import RetrieverReaderLoss
from unstale.training.best import KeptWeights
from unstale.training.own_weights import clip_own
from unstale.training.state import load_miner, save_miner
from unstale.training.trainer import MinerTrainer


@final
class RagTrainer(MinerTrainer):
    """Train a `RetrieverReaderLoss` on a column `question` of rows; log its losses one by one.

    The learning rate in `args` is the reader's. The folder `best` is for the best weights so far.
    """

    trained = "the retriever's or the reader's"

    def __init__(
        self,
        algorithm: RetrieverReaderLoss,
        args: TrainingArguments,
        questions: Dataset,
        *,
        best: Path,
        retriever_lr: float,
        corrector_lr: float,
        keep_checkpoints: int = 2,
    ) -> None:
        super().__init__(model=algorithm, args=args, train_dataset=questions)
        self.take(algorithm, keep_checkpoints)
        self.best = KeptWeights(best, dict(self._saved()))
        self.rates = {"model.": retriever_lr, "miner.": corrector_lr}
        self._parts: dict[str, Any] = {}  # sums of the losses since the last log
        self._counted = 0

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Give retriever, reader and corrector a learning rate each."""
        if self.optimizer is None:
            kind, options = self.get_optimizer_cls_and_kwargs(self.args)
            decayed = set(self.get_decay_parameter_names(self.algorithm))
            groups: dict[tuple[float, float], list[nn.Parameter]] = {}
            for name, parameter in self.algorithm.named_parameters():
                if parameter.requires_grad:
                    prefix = name.partition(".")[0] + "."
                    rate = self.rates.get(prefix, self.args.learning_rate)
                    decay = self.args.weight_decay if name in decayed else 0.0
                    groups.setdefault((rate, decay), []).append(parameter)
            listed = [
                {"params": own, "lr": rate, "weight_decay": decay}
                for (rate, decay), own in groups.items()
            ]
            self.optimizer = kind(listed, **options)
        return self.optimizer

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:  # noqa: ANN401 - a loss, or a pair
        """Add the losses up."""
        losses = model(**inputs)
        for name, value in losses.items():
            self._parts[name] = self._parts.get(name, 0.0) + value.detach()
        self._counted += 1
        loss = sum(losses.values())
        return (loss, losses) if return_outputs else loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Show the mean of each loss beside their sum."""
        if "loss" in logs and self._counted:
            logs |= {name: float(total) / self._counted for name, total in self._parts.items()}
            self._parts, self._counted = {}, 0
        super().log(logs, start_time)

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        """Clip retriever and reader by their common norm, the corrector by its own."""
        theta = [*self.algorithm.model.parameters(), *self.algorithm.reader.parameters()]
        # Accelerate unscales the gradients of half precision first, the corrector's among them.
        norm = self.accelerator.clip_grad_norm_(theta, self.args.max_grad_norm)
        clip_own(self.algorithm.miner, self.args.max_grad_norm)
        return norm

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:  # noqa: ANN401
        """Save all weights and the record of the run; nothing pickled."""
        folder = Path(output_dir or self.args.output_dir or ".")
        folder.mkdir(parents=True, exist_ok=True)
        for name, module in self._saved():
            save_model(module, str(folder / f"{name}.safetensors"))
        self.best.copy_into(folder)
        save_miner(folder, self.algorithm.miner, self.algorithm.record)

    def _load_from_checkpoint(
        self, resume_from_checkpoint: str, model: nn.Module | None = None
    ) -> None:
        folder = Path(resume_from_checkpoint)
        for name, module in self._saved():
            load_model(module, folder / f"{name}.safetensors")
        self.best.copy_from(folder)
        load_miner(folder, self.algorithm.miner, self.algorithm.record)

    def _saved(self) -> list[tuple[str, nn.Module]]:
        return [("retriever", self.algorithm.model), ("reader", self.algorithm.reader)]
