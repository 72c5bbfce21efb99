"""Weights as one hash: equal hashes are equal weights."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def hash_weights(state: Mapping[str, Tensor]) -> str:
    """Hash names, shapes, types and values."""
    whole = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        whole.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        flat = tensor.detach().cpu().contiguous().view(-1)
        whole.update(flat.view(torch.uint8).numpy().data)
    return whole.hexdigest()
