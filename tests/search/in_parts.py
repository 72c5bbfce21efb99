"""Search a buffer that several processes share, while h moves; write the overlap with exact search.

torchrun --nproc-per-node 4 tests/search/in_parts.py MODE OUTPUT
"""

import sys
from pathlib import Path

import torch
from tests.search.clusters import MODES, clustered, moved
from torch.nn.functional import normalize

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.sharded import ShardedBuffer, load
from unstale.corrector.memory import ResidualMemory
from unstale.distributed import barrier, rank, start
from unstale.search.added import Added
from unstale.search.best import agreement
from unstale.search.exact import Exact
from unstale.search.sharded import search_in_place


def main(mode: str, output: Path) -> None:
    start("cpu")
    _, stale, network = clustered(4000, 32, seed=0)
    whole = TargetBuffer([stale])
    buffer = load(whole, torch.device("cpu"))
    assert isinstance(buffer, ShardedBuffer)
    rows, residual = torch.arange(4000), 0.2 * normalize(torch.randn(4000, 32))
    memory = ResidualMemory(4000, 32)
    own = ResidualMemory(len(buffer.local), 32, first=buffer.start)
    held_in = {"memory": own} if mode == "rolling" else {}
    search = search_in_place(buffer, lambda b: MODES[mode](b, network, **held_in))
    for keeps in (memory, own):
        keeps.write(rows, residual)
    held = []
    for step in range(40):
        moved(network, 0.004)
        queries = normalize(stale[torch.randint(4000, (8,))] + 0.6 * normalize(torch.randn(8, 32)))
        exclude = torch.full((8, 1), step)
        search.begin(step)
        found = search.top_k(queries, 16, exclude, Added(step, queries, torch.arange(8), own))
        every = Added(step, queries, torch.arange(8), memory)
        exact = Exact(whole, network).top_k(queries, 16, exclude, every)
        held.append(agreement(found.rows, exact.rows))
        some = torch.randperm(4000)[:1000]  # of the rows of all processes
        changed = 0.6 * normalize(torch.randn(1000, 32))
        for keeps in (memory, own):
            keeps.write(some, changed)
        search.remember(some)
    if rank() == 0:
        output.write_text(str(sum(held) / len(held)))
    barrier()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
