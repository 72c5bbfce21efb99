"""A process group that serves the strict device alone, as NCCL's serves CUDA: gloo behind copies.

A tensor of the CPU in a collective is a RuntimeError, in the words of torch.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from tests.devices.strict import NAME
from torch import Tensor
from torch import distributed as dist
from torch._C._distributed_c10d import ProcessGroupGloo
from torch.futures import Future

BACKEND = "strict_gloo"


class StrictGroup(dist.ProcessGroup):
    """Copy tensors to main memory, let gloo do the work, and copy them back."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._gloo = ProcessGroupGloo(store, rank, size, timeout)

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> dist.Work:
        return self._through(lambda cpu: self._gloo.allreduce(cpu, opts), tensors)

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> dist.Work:
        return self._through(lambda cpu: self._gloo.broadcast(cpu, opts), tensors)

    def allgather(self, out: list[list[Tensor]], given: list[Tensor], opts: Any = None) -> Any:
        count = len(out[0])
        return self._through(
            lambda cpu: self._gloo.allgather([cpu[:count]], cpu[count:], opts), [*out[0], *given]
        )

    def _allgather_base(self, out: Tensor, given: Tensor, opts: Any = None) -> Any:
        return self.allgather([list(out.chunk(self.size()))], [given])

    def barrier(self, opts: Any = None) -> Any:
        self._gloo.barrier().wait()
        return _done([])

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(NAME)]  # where torch puts objects that it sends

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        return BACKEND

    def _through(self, work: Callable[[list[Tensor]], Any], tensors: Sequence[Tensor]) -> dist.Work:
        for tensor in tensors:
            if tensor.device.type != NAME:
                kind = tensor.device.type
                raise RuntimeError(f"No backend type associated with device type {kind}")
        copies = [tensor.cpu() for tensor in tensors]
        work(copies).wait()
        for tensor, copy in zip(tensors, copies, strict=True):
            tensor.copy_(copy)
        return _done(list(tensors))


def _done(value: Any) -> dist.Work:
    future: Future = Future()
    future.set_result(value)
    return torch._C._distributed_c10d._create_work_from_future(future)


def join() -> None:
    """Join a torchrun job over such a group, and let accelerate find it."""
    from accelerate import PartialState
    from accelerate.utils import DistributedType

    dist.Backend.register_backend(BACKEND, StrictGroup, devices=[NAME])
    dist.init_process_group(BACKEND)

    def prepare(self: Any, *args: Any, **kwargs: Any) -> tuple[str, DistributedType]:
        return BACKEND, DistributedType.MULTI_XPU  # it moves what it sends to its device

    PartialState._prepare_backend = prepare
