"""Who does the work of a map over pieces: this process, or the workers of a Ray cluster?

Ray's plain tasks are enough: a piece is a pure function of its input, so a worker that dies costs
one piece, which Ray hands to another. What comes back is written by this process alone, in order,
as without Ray; so no storage is shared, a killed run resumes alike, and the bytes are the same.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, TypeVar

from unstale.declare import setting
from unstale.errors import InputError, RunError

T = TypeVar("T")
U = TypeVar("U")
Engine = Literal["local", "ray"]


@dataclass(frozen=True)
class EngineSettings:
    """Machine: where to run.

    Args:
        engine: ray embeds and corrects on a Ray cluster: the one that RAY_ADDRESS names or that
            this machine belongs to, otherwise one that it starts here. local does without.
    """

    engine: Engine = setting("local", changeable=True, local=True)


def check_engine(engine: Engine, shard: str | None = None) -> None:
    """Refuse Ray where it is not installed, or beside another way to share the work."""
    if engine == "local":
        return
    if find_spec("ray") is None:
        raise InputError("--engine ray needs ray: pip install 'unstale[ray]'")
    if shard is not None or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        other = "torchrun" if shard is None else f"--shard {shard}"
        raise InputError(f"--engine ray and {other} both divide the work: use one of them")


def ray_map(
    work: Callable[..., U], shared: tuple[Any, ...], items: Iterable[T], *, gpu: bool
) -> Iterator[U]:
    """Yield `work(*shared, item)` for each item, in order, computed by the workers of a cluster.

    Few items are on their way at a time, so memory does not grow with their number. A task takes
    one CPU, and one GPU if it can use one and the cluster has any.
    """
    ray = _cluster()
    has = ray.cluster_resources()
    task = ray.remote(num_cpus=1, num_gpus=int(gpu and has.get("GPU", 0) > 0))(_work)
    held, most = ray.put(shared), 2 * max(1, int(has.get("CPU", 1)))
    waiting: deque[Any] = deque()

    def first() -> U:
        try:
            return ray.get(waiting.popleft())
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            said = str(error).strip().partition("\n")[0]
            raise RunError(f"Ray: {said}; resume with --resume") from None

    for item in items:
        waiting.append(task.remote(work, [held], item))
        if len(waiting) == most:
            yield first()
    while waiting:
        yield first()


def _work(work: Callable[..., U], held: list[Any], item: T) -> U:
    """Do one piece in a worker."""
    return work(*_shared(held[0]), item)


@lru_cache(maxsize=1)
def _shared(held: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a reference of Ray's
    """Fetch what all pieces need, such as a model, once for a worker and not for each piece."""
    return import_module("ray").get(held)


def _cluster() -> Any:  # noqa: ANN401 - a module without types
    """Join the cluster that there is (`RAY_ADDRESS`, or one on this machine), or start one here."""
    ray = import_module("ray")
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="warning")
    return ray
