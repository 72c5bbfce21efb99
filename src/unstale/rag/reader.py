"""The reader: any T5-like model, which encodes each (question, target) pair once.

What it encoded serves twice: fused for the decoder (Fusion-in-Decoder), and pair by pair for the
likelihood of the answer given each target.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.modeling_outputs import BaseModelOutput

from unstale.encoders.load import hash_weights, silence_dropout
from unstale.errors import InputError

IGNORED = -100  # a label that is padding, as transformers has it


@final
class Encoded(NamedTuple):
    """What the reader's encoder made of some inputs."""

    states: Float[Tensor, "n l d"]
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


@final
class Reader(nn.Module):
    """A sequence-to-sequence model with its tokenizer and its limits.

    Args:
        model: From transformers, with an encoder and a decoder.
        tokenizer: Its tokenizer.
        max_length: Tokens after which a question with its target is cut.
        answer_length: The most tokens of an answer.
        usual_lr: The learning rate to train it with, unless another is chosen.
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - transformers' seq2seq models share no class that says so
        tokenizer: Any,  # noqa: ANN401
        *,
        max_length: int = 256,
        answer_length: int = 64,
        usual_lr: float = 1e-4,
    ) -> None:
        super().__init__()
        self.model, self.tokenizer, self.usual_lr = model, tokenizer, usual_lr
        self.max_length, self.answer_length = max_length, answer_length
        self.truncated = 0  # inputs that were cut, so far

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    @property
    def weights(self) -> str:
        """A digest of the model's weights."""
        return hash_weights(self.model.state_dict())

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
        return -functional.cross_entropy(
            logits.float().transpose(1, 2), labels, reduction="none", ignore_index=IGNORED
        )

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

    def save(self, folder: Path) -> None:
        """Write a plain transformers folder."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def reader_input(question: str, target: str | None) -> str:
    """Write a question and a target as one input; the question first, so it is never cut.

    Example:
        >>> reader_input("Who?", "It was Ada.")
        'question: Who? context: It was Ada.'
    """
    return f"question: {question}" + ("" if target is None else f" context: {target}")


def load_reader(
    name: str,
    *,
    max_length: int = 256,
    answer_length: int = 64,
    dropout: bool = False,
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
) -> Reader:
    """Load a reader from a folder or by its hub name, or say why it cannot be one.

    Args:
        name: A folder or a hub name.
        max_length: Tokens after which a question with its target is cut.
        answer_length: The most tokens of an answer.
        dropout: Keep the model's dropout while training.
        device: Where to put it.
        trust_remote_code: Let a hub model run code of its own.
    """
    trusted = {"trust_remote_code": trust_remote_code}
    try:
        config = AutoConfig.from_pretrained(name, **trusted)
        if not config.is_encoder_decoder:
            rule = "a reader needs an encoder and a decoder, as T5 has"
            raise InputError(f"{name} is a {config.model_type}: {rule}")
        tokenizer = AutoTokenizer.from_pretrained(name, **trusted)
        model = AutoModelForSeq2SeqLM.from_pretrained(name, **trusted)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip().splitlines() or [repr(error)])[0]
        raise InputError(f"cannot load the reader {name!r} ({reason})") from error
    if tokenizer.pad_token_id is None:
        raise InputError(f"the tokenizer of {name} has no pad token: inputs cannot be batched")
    head = model.get_output_embeddings()
    shared = [m.weight for m in model.modules() if isinstance(m, nn.Embedding)]
    if head is not None and not any(head.weight is weight for weight in shared):
        model.config.tie_word_embeddings = False  # as its weights are, whatever its config says
    model = model.float().to(device)
    if not dropout:
        silence_dropout(model)
    return Reader(model, tokenizer, max_length=max_length, answer_length=answer_length)
