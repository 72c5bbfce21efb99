"""A partition of the targets into cells of close neighbours, by faiss's k-means."""

from types import ModuleType

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unstale.errors import InputError
from unstale.search.draws import subset
from unstale.search.vectors import Vectors

_MOST = 8192  # cells; finding more would not stay affordable
_SAMPLE = 40  # targets for each centroid to learn from
_ROUNDS = 6
_SCORES = 2**24  # comparisons at once, which bounds the memory,
_ROWS = 16_384  # or rows where faiss does: pieces of short vectors below 4,096 cost five times more


def partition(
    vectors: Vectors, seed: int
) -> tuple[Int[Tensor, " n"], Int[Tensor, " cells_and_end"]]:
    """Divide vectors into 4 sqrt(N) cells, at most 8,192, none of them empty.

    Return the rows cell by cell, and where each cell begins among them.
    """
    count = max(1, min(len(vectors), round(4 * len(vectors) ** 0.5), _MOST))
    rows = subset(len(vectors), min(len(vectors), _SAMPLE * count), seed, step=0)
    centroids = _k_means(vectors[rows.to(vectors.device)], count, seed)
    # Written into place: many small answers between large chunks would leave holes in the memory.
    cell = torch.empty(len(vectors), dtype=torch.int32, device=centroids.device)
    size = _ROWS if cell.device.type == "cpu" else max(256, _SCORES // count)
    for start, chunk in vectors.chunks(size):
        cell[start : start + len(chunk)] = _nearest(chunk, centroids)
    sizes = torch.bincount(cell)
    ends = sizes[sizes > 0].cumsum(0)
    return cell.argsort(stable=True), torch.cat([ends.new_zeros(1), ends])


def import_faiss() -> ModuleType:
    """Return faiss, or say how to install it."""
    try:
        import faiss
    except ImportError:
        raise InputError("cells need faiss: pip install 'unstale[faiss]'") from None
    return faiss


def _k_means(vectors: Float[Tensor, "n d"], count: int, seed: int) -> Float[Tensor, "c d"]:
    if len(vectors) <= count:
        return vectors
    means = import_faiss().Kmeans(
        vectors.shape[1], count, niter=_ROUNDS, seed=seed + 1, min_points_per_centroid=1
    )
    means.train(vectors.cpu().numpy())
    return torch.from_numpy(means.centroids).to(vectors.device)


def _nearest(vectors: Float[Tensor, "n d"], centroids: Float[Tensor, "c d"]) -> Int[Tensor, " n"]:
    if vectors.device.type == "cpu":  # five times as fast there
        return torch.from_numpy(import_faiss().knn(vectors.numpy(), centroids.numpy(), 1)[1][:, 0])
    # |v - c|^2 = |v|^2 - 2 v.c + |c|^2, of which the first is the same for all c.
    return torch.addmm(-0.5 * centroids.square().sum(dim=1), vectors, centroids.T).argmax(dim=1)
