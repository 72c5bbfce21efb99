"""Several processes as one: who they are, and how tensors move between them.

Started by torchrun, joined by accelerate, over gloo or NCCL. In a single process every function
here does nothing, so that the rest need not ask. A group may serve the tensors of one device alone,
as NCCL serves those of CUDA: here, and nowhere else, tensors are brought to it and back.
"""

import atexit
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch import distributed as dist

from unstale.errors import InputError, RunError

T = TypeVar("T")
LOST = (
    "another process of this job ended, and its own output says why; run the same command with "
    "--resume to continue from the last checkpoint, with any number of processes"
)


def start(device: str | None) -> None:
    """Join the other processes of a torchrun job, if this is one of several."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        from accelerate import PartialState

        cpu = device == "cpu" or not torch.cuda.is_available()
        PartialState(cpu=cpu)  # the trainer's accelerator finds and shares it
        atexit.register(_leave)
        signal.signal(signal.SIGTERM, _stopped)  # how torchrun ends those that are left


def _leave() -> None:
    """Leave the group: gloo aborts a process that ends while its threads still run."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _stopped(number: int, frame: FrameType | None) -> None:
    raise RunError(LOST)


def is_lost(error: RuntimeError) -> bool:
    """Tell whether an error means that another process cannot be reached any more."""
    words = ("closed by peer", "gloo", "Broken pipe", "reset by peer")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


def world() -> int:
    """Count the processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process; 0 writes and prints."""
    return dist.get_rank() if dist.is_initialized() else 0


def barrier() -> None:
    """Wait for the other processes."""
    if world() > 1:
        dist.barrier()


@contextmanager
def first_alone() -> Iterator[None]:
    """Let process 0 do something before the others, which find it done.

    If it raises an error there, the others raise it, too.
    """
    if rank() > 0:
        _hear_first()
    try:
        yield
    except Exception as error:
        if rank() == 0:
            _hear_first(error=error)
        raise
    if rank() == 0:
        _hear_first()


def exchange(value: T) -> list[T]:
    """Return what every process has to say, in their order."""
    if world() == 1:
        return [value]
    said: list[T] = [value] * world()
    dist.all_gather_object(said, value)
    return said


def check_processes(own: Mapping[str, object]) -> None:
    """Refuse to work together with a process that reads other data or other models."""
    for number, other in enumerate(exchange(dict(own))):
        for name in own:
            if other.get(name) != own[name]:
                rule = "all processes must read the same data and the same model"
                raise InputError(f"{name} differs between this process and {number}: {rule}")


def on_first(work: Callable[[], T]) -> T:
    """Let process 0 do something, and tell all of them what came of it, be it an error."""
    if rank() > 0:
        return cast("T", _hear_first())
    try:
        value = work()
    except Exception as error:
        _hear_first(error=error)
        raise
    return cast("T", _hear_first(value))


def _hear_first(value: object = None, error: Exception | None = None) -> object:
    """Return in every process what process 0 passes; in the others raise the error that it has."""
    # Only the words of an error travel: many errors cannot be pickled.
    kinds = [kind for kind in (InputError, RunError, OSError) if isinstance(error, kind)]
    failed = (kinds[0], str(error)) if kinds else None if error is None else (RunError, LOST)
    value, failed = exchange((value, failed))[0]
    if failed is not None and rank() > 0:
        kind, said = failed
        raise kind(said)
    return value


def share(count: int) -> slice:
    """Return the part of `count` rows that is this process's own.

    Example:
        >>> share(10)
        slice(0, 10, None)
    """
    return slice(count * rank() // world(), count * (rank() + 1) // world())


@cache
def _served(config: str) -> tuple[str, ...]:
    """List the kinds of devices that a group serves, as in `cuda:nccl,cpu:gloo`."""
    return tuple(pair.partition(":")[0] for pair in config.split(","))


def _to_group(tensor: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """Bring a tensor to a device that the group serves; one that is there stays."""
    served = _served(dist.get_backend_config())
    return tensor if tensor.device.type in served else tensor.to(served[0])


def gather(tensor: Shaped[Tensor, "n ..."]) -> Shaped[Tensor, "m ..."]:
    """Put the rows of all processes under each other; they may have different numbers of them."""
    if world() == 1:
        return tensor
    sent = _to_group(tensor)
    count = torch.tensor([len(sent)], device=sent.device)
    counts = torch.cat(_all_gather(count)).tolist()
    missing = sent.new_zeros(max(counts) - len(sent), *sent.shape[1:])
    parts = _all_gather(torch.cat([sent, missing]).contiguous())
    found = torch.cat([part[:n] for part, n in zip(parts, counts, strict=True)])
    return found.to(tensor.device)


def _all_gather(tensor: Shaped[Tensor, "..."]) -> list[Tensor]:
    parts = [torch.empty_like(tensor) for _ in range(world())]
    dist.all_gather(parts, tensor)
    return parts


def gather_with_gradients(tensor: Shaped[Tensor, "n d"]) -> Shaped[Tensor, "m d"]:
    """Do as `gather`, for equal numbers of rows; a row's gradient is the sum over processes."""
    return tensor if world() == 1 else _Gather.apply(tensor)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:  # noqa: ANN401
        return gather(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        summed = total(gradient.contiguous())
        return summed[share(len(summed))]


def total(tensor: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """Add up a tensor over the processes, in place."""
    if world() > 1:
        sent = _to_group(tensor)
        dist.all_reduce(sent)
        _bring_back(sent, tensor)
    return tensor


def _bring_back(sent: Tensor, tensor: Tensor) -> None:
    if sent is not tensor:
        tensor.copy_(sent)


def broadcast(tensors: Iterable[Tensor]) -> None:
    """Overwrite tensors by those of process 0."""
    if world() > 1:
        for tensor in tensors:
            own = tensor.data
            sent = _to_group(own)
            dist.broadcast(sent, src=0)
            _bring_back(sent, own)


def average(tensors: Iterable[Tensor]) -> None:
    """Replace tensors by their means over the processes, in one message for each type."""
    if world() == 1:
        return
    kinds: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault(tensor.dtype, []).append(tensor)
    for group in kinds.values():
        flat = total(torch.cat([t.flatten() for t in group])) / world()
        for tensor, part in zip(group, flat.split([t.numel() for t in group]), strict=True):
            tensor.copy_(part.view_as(tensor))
