"""A reader without an encoder: a Llama or a GPT, which goes on where its prompt ends.

The prompt is the model's own chat template around question and target, or a plain one if it has
none; the answer follows. Only the likelihood of the answer's tokens is needed to teach a retriever.
"""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.errors import InputError
from unstale.rag.reader import IGNORED, Encoded, Prompt, Reader, label_log_probs

_ASKED = "Answer in a few words.\n"
_MARK = "\ue000"  # of no language: where the chat template puts what the user says


@final
class DecoderOnly(Reader):
    """A reader that is a causal language model."""

    fuses = False

    def __init__(self, model: Any, tokenizer: Any, **limits: Any) -> None:  # noqa: ANN401
        super().__init__(model, tokenizer, **limits)
        if tokenizer.eos_token_id is None:
            raise InputError("the reader's tokenizer has no end token: answers would not end")
        self.end: int = tokenizer.eos_token_id
        before, after = self._template()
        self._before, self._after = self._tokens(before), self._tokens(after)

    def positions(self, question: int) -> int:
        """Count those of prompt and answer together."""
        around = len(self._before) + len(self._after)
        return around + question + self.max_length + self.answer_length

    def encode(self, prompts: Sequence[Prompt]) -> Encoded:
        """Write the prompts, padded on the left so that all of them end at the same place."""
        rows = []
        for prompt in prompts:
            own, most = self._tokens(prompt.text), len(self._tokens(prompt.question))
            most += self.max_length
            self.truncated += len(own) > most
            rows.append([*self._before, *own[:most], *self._after])
        length = max(map(len, rows))
        ids = [[self.end] * (length - len(row)) + row for row in rows]
        mask = [[0] * (length - len(row)) + [1] * len(row) for row in rows]
        device = self.device
        return Encoded(torch.tensor(ids, device=device), torch.tensor(mask, device=device))

    def answer_tokens(self, answers: Sequence[str]) -> list[list[int]]:
        """Tokenise answers in full as they follow a prompt, each with the end token."""
        return [[*self._tokens(f"{self._gap}{answer}"), self.end] for answer in answers]

    def labels(self, answers: Sequence[str]) -> Int[Tensor, "b t"]:
        """Tokenise answers, padded with -100."""
        rows = [tokens[: self.answer_length] for tokens in self.answer_tokens(answers)]
        length = max(map(len, rows))
        padded = [row + [IGNORED] * (length - len(row)) for row in rows]
        return torch.tensor(padded, device=self.device)

    def _log_probs(self, encoded: Encoded, labels: Int[Tensor, "n t"]) -> Float[Tensor, "n t"]:
        known = labels != IGNORED
        ids = torch.cat([encoded.states, labels.where(known, self.end)], dim=1)
        mask = torch.cat([encoded.mask, known.long()], dim=1)
        logits = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
            logits_to_keep=labels.shape[1] + 1,  # those of the prompt would be the most of them
            use_cache=False,
        ).logits
        return label_log_probs(logits[:, :-1], labels)

    @torch.no_grad()
    def generate(self, encoded: Encoded) -> list[str]:
        """Write an answer for each input, greedily."""
        ids = self.model.generate(
            input_ids=encoded.states,
            attention_mask=encoded.mask,
            max_new_tokens=self.answer_length,
            num_beams=1,
            do_sample=False,
            pad_token_id=self.end,
            eos_token_id=self.end,
        )
        new = ids[:, encoded.states.shape[1] :]
        return [t.strip() for t in self.tokenizer.batch_decode(new, skip_special_tokens=True)]

    def _template(self) -> tuple[str, str]:
        """Return what stands before and after what a user says."""
        if not self.tokenizer.chat_template:
            return self.tokenizer.bos_token or "", "\nanswer:"
        said = [{"role": "user", "content": f"{_ASKED}{_MARK}"}]
        whole = self.tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
        before, mark, after = whole.partition(_MARK)
        if not mark:
            raise InputError("the reader's chat template does not show what the user says")
        return before, after

    @property
    def _gap(self) -> str:
        return "" if self.tokenizer.chat_template else " "

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids
