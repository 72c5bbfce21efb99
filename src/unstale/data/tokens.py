"""Tokenise every target once, into memory-mapped arrays.

Negatives are chosen after the data loader, on the training step itself, so their tokens must be
at hand by row number. Works for any model that turns texts into `input_ids`: padded with an
attention mask (transformers), or flat with offsets (static embeddings).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray
from tqdm import tqdm

from unstale.data.dataset import Texts
from unstale.errors import InputError
from unstale.integrity import cached

Features = dict[str, Any]
_CHUNK = 2048  # texts tokenised at once


@final
@dataclass(frozen=True, eq=False)
class TokenStore:
    """Serve the features of any rows, as the model's own `preprocess` would make them."""

    ids: Int[ndarray, " t"]  # the tokens of all rows end to end
    starts: Int[ndarray, " s"]
    template: Features  # how to make features of tokens

    def __len__(self) -> int:
        return len(self.starts) - 1

    def lengths(self, rows: Int[ndarray, " b"]) -> Int[ndarray, " b"]:
        """Return the number of tokens of some targets, after truncation."""
        return self.starts[rows + 1] - self.starts[rows]

    def between(self, start: int, stop: int) -> "TokenStore":
        """Copy the rows from `start` up to `stop` into memory."""
        starts = np.array(self.starts[start : stop + 1])
        ids = np.array(self.ids[starts[0] : starts[-1]])
        return TokenStore(ids, starts - starts[0], self.template)

    @property
    def truncated(self) -> int:
        """Count the targets that were cut at the model's maximum length."""
        return int(self.template["truncated"])

    def features(self, rows: Int[ndarray, " b"], device: torch.device) -> Features:
        """Assemble the model's input for some rows, on a device."""
        starts, lengths = self.starts[rows], self.lengths(rows)
        total = int(lengths.sum())
        row_starts = np.cumsum(lengths) - lengths
        flat = self.ids[np.arange(total) + np.repeat(starts - row_starts, lengths)]
        tokens = torch.from_numpy(flat.astype(np.int64))
        features: Features = dict(self.template["constants"])
        if self.template["kind"] == "offsets":
            features["input_ids"] = tokens
            features["offsets"] = torch.from_numpy(row_starts.astype(np.int64))
        else:
            inside = torch.arange(int(lengths.max(initial=0))) < torch.from_numpy(lengths)[:, None]
            padded = torch.full(inside.shape, self.template["pad"], dtype=torch.long)
            padded[inside] = tokens
            features["input_ids"] = padded
            features["attention_mask"] = inside.long()
            if self.template["segments"]:
                features["token_type_ids"] = torch.zeros_like(padded)
        return to_device(features, device)

    @classmethod
    def build(
        cls,
        texts: Texts,
        preprocess: Callable[[list[str]], Features],
        folder: Path,
        *,
        pad: int = 0,
        max_length: int | None = None,
        progress: bool = True,
    ) -> "TokenStore":
        """Tokenise all texts into `folder`, or open it if a finished store is there."""

        def tokenise(into: Path) -> None:
            quiet = not progress or len(texts) < 10 * _CHUNK
            starts = np.zeros(len(texts) + 1, np.int64)  # at first the lengths
            with (
                (into / "ids.bin").open("wb") as sink,
                tqdm(total=len(texts), desc="tokenising", unit="target", disable=quiet) as bar,
            ):
                for row, chunk in texts.chunks(_CHUNK):
                    counts, tokens, template = _flatten(preprocess(chunk), pad)
                    starts[row + 1 : row + 1 + len(chunk)] = counts
                    sink.write(tokens.astype(np.int32).tobytes())
                    bar.update(len(chunk))
            template["truncated"] = int((starts >= max_length).sum()) if max_length else 0
            np.cumsum(starts, out=starts)
            template["tokens"] = int(starts[-1])
            np.save(into / "starts.npy", starts)
            (into / "template.json").write_text(json.dumps(template), "utf-8")

        cached(folder, tokenise)
        template = json.loads((folder / "template.json").read_text("utf-8"))
        empty = np.zeros(0, np.int32)  # an empty file cannot be mapped
        ids = np.memmap(folder / "ids.bin", np.int32, "r") if template["tokens"] else empty
        starts = np.asarray(np.load(folder / "starts.npy", mmap_mode="r"))
        store = cls(ids, starts, template)
        if len(store) != len(texts):
            raise InputError(f"{folder} holds tokens of {len(store)} targets, not {len(texts)}")
        return store


def to_device(features: Features, device: torch.device) -> Features:
    """Move the tensors among some features to a device."""
    return {k: v.to(device) if torch.is_tensor(v) else v for k, v in features.items()}


def _flatten(
    features: Features, pad: int
) -> tuple[Int[ndarray, " c"], Int[ndarray, " t"], dict[str, Any]]:
    """Take padding out: token counts, the tokens end to end, and how to put them back."""
    constants = {k: v for k, v in features.items() if isinstance(v, (int, str))}
    known = {"input_ids", "attention_mask", "token_type_ids", "offsets", *constants}
    if "input_ids" not in features or (extra := set(features) - known):
        found = sorted(features) if "input_ids" not in features else sorted(extra)
        raise InputError(f"cannot store this model's features by row: it makes {found}")
    ids = features["input_ids"].numpy()
    template = {"constants": constants, "pad": pad, "segments": "token_type_ids" in features}
    if "offsets" in features:
        ends = np.append(features["offsets"].numpy()[1:], len(ids))
        return ends - features["offsets"].numpy(), ids, template | {"kind": "offsets"}
    mask = features["attention_mask"].numpy().astype(bool)
    return mask.sum(axis=1), ids[mask], template | {"kind": "padded"}
