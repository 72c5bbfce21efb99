"""The reader: it takes in (question, target) pairs, says how likely an answer is, and writes one.

`EncoderDecoder` is any T5-like model, which encodes each pair once. What it encoded serves twice:
fused for the decoder (Fusion-in-Decoder), and pair by pair for the likelihood of the answer given
each target. `decoder_only.py` has the other kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import BaseModelOutput

from unstale.encoders.load import hash_weights
from unstale.errors import InputError

IGNORED = -100  # a label that is padding, as transformers has it


@final
class Encoded(NamedTuple):
    """What the reader's encoder made of some inputs; without an encoder, their tokens."""

    states: Float[Tensor, "n l d"] | Int[Tensor, "n l"]
    mask: Int[Tensor, "n l"]

    @property
    def outputs(self) -> BaseModelOutput:
        """The states as a decoder of transformers takes them."""
        return BaseModelOutput(last_hidden_state=self.states)  # type: ignore[arg-type]

    def fused(self, k: int) -> "Encoded":
        """Lay the k pairs of each question side by side: what a decoder of FiD attends to."""
        n, length, width = self.states.shape
        states = self.states.reshape(n // k, k * length, width)
        return Encoded(states, self.mask.reshape(n // k, k * length))

    def take(self, rows: Int[Tensor, " m"]) -> "Encoded":
        """Choose some inputs."""
        return Encoded(self.states[rows], self.mask[rows])


class Reader(nn.Module, ABC):
    """A language model with its tokenizer and its limits.

    One that `fuses` can let its decoder look at several encoded inputs at once.

    Args:
        model: From transformers.
        tokenizer: Its tokenizer.
        max_length: Tokens after which a question with its target is cut.
        answer_length: The most tokens of an answer.
        usual_lr: The learning rate to train it with, unless another is chosen.
    """

    fuses: bool

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - transformers' models share no class that says what they can
        tokenizer: Any,  # noqa: ANN401
        *,
        max_length: int = 256,
        answer_length: int = 64,
        usual_lr: float = 1e-4,
    ) -> None:
        super().__init__()
        self.model, self.tokenizer, self.usual_lr = model, tokenizer, usual_lr
        self.max_length, self.answer_length = max_length, answer_length
        self.adapted = False  # by LoRA
        self.truncated = 0  # inputs that were cut, so far

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    @property
    def weights(self) -> str:
        """A digest of the model's weights."""
        return hash_weights(self.model.state_dict())

    @property
    @abstractmethod
    def positions(self) -> int:
        """Count the positions that the model needs for the longest input and answer."""

    @abstractmethod
    def encode(self, inputs: Sequence[str]) -> Encoded:
        """Take in some inputs, each by itself; what is too long is cut, and counted."""

    @abstractmethod
    def answer_tokens(self, answers: Sequence[str]) -> list[list[int]]:
        """Tokenise answers in full, each with its end."""

    @abstractmethod
    def labels(self, answers: Sequence[str]) -> Int[Tensor, "b t"]:
        """Tokenise answers, padded with -100."""

    @abstractmethod
    def log_probs(self, encoded: Encoded, labels: Int[Tensor, "n t"]) -> Float[Tensor, "n t"]:
        """Return log P of every token of the answers, 0 where a label is padding."""

    @abstractmethod
    def generate(self, encoded: Encoded) -> list[str]:
        """Write an answer for each input, greedily."""

    def add_lora(self, rank: int) -> None:
        """Train low-rank adapters of all linear layers, and leave the weights as they are."""
        try:
            from peft import LoraConfig, get_peft_model
        except ImportError:
            raise InputError("LoRA needs peft: pip install 'unstale[lora]'") from None
        config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
        self.model, self.adapted = get_peft_model(self.model, config), True

    def save(self, folder: Path) -> None:
        """Write a plain transformers folder; adapters are added to the weights."""
        model = deepcopy(self.model).merge_and_unload() if self.adapted else self.model
        model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


@final
class EncoderDecoder(Reader):
    """A reader that is a sequence-to-sequence model."""

    fuses = True

    @property
    def positions(self) -> int:
        """Count those of the encoder or of the decoder, whichever needs more."""
        return max(self.max_length, self.answer_length)

    def encode(self, inputs: Sequence[str]) -> Encoded:
        """Run the encoder on some inputs, each by itself."""
        batch = self.tokenizer(
            list(inputs),
            max_length=self.max_length,
            truncation=True,
            padding=True,
            return_tensors="pt",
        )
        if batch.encodings is None:  # a tokenizer in plain Python: a full row may have been cut
            self.truncated += int((batch["attention_mask"].sum(dim=1) >= self.max_length).sum())
        else:
            self.truncated += sum(bool(e.overflowing) for e in batch.encodings)
        ids, mask = batch["input_ids"].to(self.device), batch["attention_mask"].to(self.device)
        states = self.model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        return Encoded(states, mask)

    def answer_tokens(self, answers: Sequence[str]) -> list[list[int]]:
        """Tokenise answers in full, each with its end."""
        tokens: list[list[int]] = self.tokenizer(text_target=list(answers))["input_ids"]
        return tokens

    def labels(self, answers: Sequence[str]) -> Int[Tensor, "b t"]:
        """Tokenise answers, padded with -100."""
        batch = self.tokenizer(
            text_target=list(answers),
            max_length=self.answer_length,
            truncation=True,
            padding=True,
            return_tensors="pt",
        )
        ids = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
        return ids.to(self.device)

    def log_probs(self, encoded: Encoded, labels: Int[Tensor, "n t"]) -> Float[Tensor, "n t"]:
        """Return log P of every token of the answers, 0 where a label is padding."""
        logits = self.model(
            encoder_outputs=encoded.outputs,
            attention_mask=encoded.mask,
            decoder_input_ids=self.model.prepare_decoder_input_ids_from_labels(labels),
            use_cache=False,
        ).logits
        return label_log_probs(logits, labels)

    @torch.no_grad()
    def generate(self, encoded: Encoded) -> list[str]:
        """Write an answer for each input, greedily."""
        ids = self.model.generate(
            encoder_outputs=encoded.outputs,
            attention_mask=encoded.mask,
            max_new_tokens=self.answer_length,
            num_beams=1,
            do_sample=False,
        )
        return [t.strip() for t in self.tokenizer.batch_decode(ids, skip_special_tokens=True)]


def label_log_probs(
    logits: Float[Tensor, "n t v"], labels: Int[Tensor, "n t"]
) -> Float[Tensor, "n t"]:
    """Return log P of each label, in full precision; 0 where it is padding."""
    return -functional.cross_entropy(
        logits.float().transpose(1, 2), labels, reduction="none", ignore_index=IGNORED
    )


def reader_input(question: str, target: str | None) -> str:
    """Write a question and a target as one input; the question first, so it is never cut.

    Example:
        >>> reader_input("Who?", "It was Ada.")
        'question: Who? context: It was Ada.'
    """
    return f"question: {question}" + ("" if target is None else f" context: {target}")
