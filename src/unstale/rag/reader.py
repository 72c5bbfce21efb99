"""The reader: it takes in (question, target) pairs, says how likely an answer is, and writes one.

`EncoderDecoder` is any T5-like model, which encodes each pair once. What it encoded serves twice:
fused for the decoder (Fusion-in-Decoder), and pair by pair for the likelihood of the answer given
each target. `decoder_only.py` has the other kind.
"""

import warnings
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
from unstale.training.encode import in_mini_batches

IGNORED = -100  # a label that is padding, as transformers has it


@final
class Encoded(NamedTuple):
    """What the reader's encoder made of some inputs; without an encoder, their tokens."""

    states: Float[Tensor, "n l d"] | Int[Tensor, "n l"]
    mask: Int[Tensor, "n l"]
    pairs: int = 1  # that lie side by side in one of them

    @property
    def outputs(self) -> BaseModelOutput:
        """The states as a decoder of transformers takes them."""
        return BaseModelOutput(last_hidden_state=self.states)  # type: ignore[arg-type]

    def fused(self, k: int) -> "Encoded":
        """Lay the k pairs of each question side by side: what a decoder of FiD attends to."""
        n, length, width = self.states.shape
        states = self.states.reshape(n // k, k * length, width)
        return Encoded(states, self.mask.reshape(n // k, k * length), k)

    def take(self, rows: Int[Tensor, " m"] | slice) -> "Encoded":
        """Choose some inputs."""
        return Encoded(self.states[rows], self.mask[rows], self.pairs)


@final
class Prompt(NamedTuple):
    """What a reader is given: the question, which is never cut, and a target."""

    question: str
    target: str = ""

    @property
    def text(self) -> str:
        """Both in one."""
        return self.question + self.target


class Reader(nn.Module, ABC):
    """A language model with its tokenizer and its limits.

    One that `fuses` can let its decoder look at several encoded inputs at once.

    Args:
        model: From transformers.
        tokenizer: Its tokenizer.
        max_length: Tokens after which a target is cut. The question is never cut.
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
        self.at_once = 0  # pairs to run at a time (GradCache); 0 runs all at once
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
    def most_positions(self) -> int | None:
        """Return how many positions the model has, if it learned a vector for each."""
        return getattr(self.model.config, "max_position_embeddings", None)

    @abstractmethod
    def positions(self, question: int) -> int:
        """Count the positions for a question of so many tokens, the longest target and answer."""

    @abstractmethod
    def encode(self, prompts: Sequence[Prompt]) -> Encoded:
        """Take in some inputs, each by itself; a target that is too long is cut, and counted."""

    @abstractmethod
    def answer_tokens(self, answers: Sequence[str]) -> list[list[int]]:
        """Tokenise answers in full, each with its end."""

    @abstractmethod
    def labels(self, answers: Sequence[str]) -> Int[Tensor, "b t"]:
        """Tokenise answers, padded with -100."""

    def log_probs(self, encoded: Encoded, labels: Int[Tensor, "n t"]) -> Float[Tensor, "n t"]:
        """Return log P of every token of the answers, 0 where a label is padding."""
        size = self.at_once and max(1, self.at_once // encoded.pairs)
        return in_mini_batches(
            lambda some: self._log_probs(encoded.take(some), labels[some]), len(labels), size
        )

    @abstractmethod
    def _log_probs(self, encoded: Encoded, labels: Int[Tensor, "n t"]) -> Float[Tensor, "n t"]:
        """Return them for all inputs at once."""

    @abstractmethod
    def generate(self, encoded: Encoded) -> list[str]:
        """Write an answer for each input, greedily."""

    def add_lora(self, rank: int) -> None:
        """Train low-rank adapters of all linear layers, and leave the weights as they are.

        They start alike every time: a run that is resumed must start from the same reader.
        """
        try:
            from peft import LoraConfig, get_peft_model
        except ImportError:
            raise InputError("LoRA needs peft: pip install 'unstale[lora]'") from None
        config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "fan_in_fan_out")  # GPT-2's layers are transposed
            torch.manual_seed(0)
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

    def positions(self, question: int) -> int:
        """Count those of the encoder or of the decoder, whichever needs more."""
        return max(question + self.max_length, self.answer_length)

    def encode(self, prompts: Sequence[Prompt]) -> Encoded:
        """Run the encoder on some inputs, each by itself."""
        rows = [self._tokens(prompt) for prompt in prompts]
        length = max(map(len, rows))
        pad = self.tokenizer.pad_token_id
        ids = torch.tensor([r + [pad] * (length - len(r)) for r in rows], device=self.device)
        mask = torch.tensor([[1] * len(r) + [0] * (length - len(r)) for r in rows]).to(self.device)

        def some(part: slice) -> Float[Tensor, "m l d"]:
            whole = self.model.get_encoder()(input_ids=ids[part], attention_mask=mask[part])
            states: Float[Tensor, "m l d"] = whole.last_hidden_state
            return states

        return Encoded(in_mini_batches(some, len(rows), self.at_once), mask)

    def _tokens(self, prompt: Prompt) -> list[int]:
        """Tokenise an input; of one that is too long, the end of the target is cut."""
        tokens: list[int] = self.tokenizer(prompt.text, verbose=False)["input_ids"]
        most = self.most_positions or len(tokens)
        if len(tokens) > self.max_length:
            asked = len(self.tokenizer(prompt.question, verbose=False)["input_ids"])
            most = min(most, asked + self.max_length)
        if len(tokens) > most:
            self.truncated += 1
            tokens = self.tokenizer(prompt.text, max_length=most, truncation=True)["input_ids"]
        return tokens

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

    def _log_probs(self, encoded: Encoded, labels: Int[Tensor, "n t"]) -> Float[Tensor, "n t"]:
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


def reader_input(question: str, target: str | None) -> Prompt:
    """Write a question and a target as one input.

    Example:
        >>> reader_input("Who?", "It was Ada.").text
        'question: Who? context: It was Ada.'
    """
    asked = f"question: {question}"
    return Prompt(asked) if target is None else Prompt(f"{asked} context:", f" {target}")
