"""`unstale plan`."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from unstale.buffer.stored import DTYPES
from unstale.cli.encoder import open_encoder
from unstale.cli.options_inspect import PlanFlags
from unstale.encoders.embed import dimension
from unstale.errors import InputError
from unstale.files import write_json
from unstale.machine import free_memory
from unstale.plan.cost import Cost, Job, Rates, choose, costs, disk, priced
from unstale.plan.measure import calibrate, encoder_flops

_QUIET = 0.5  # by how much timings of the same work may differ before a plan is doubted
_UPDATES = 2e10  # weights a second that Adam moves at a terabyte a second, 40 bytes to a weight


def run(chosen: PlanFlags) -> None:
    """Measure the machine, unless its speed is given, and print what a run would cost."""
    if chosen.flops is not None and chosen.parameters is None:
        raise InputError("--flops needs --parameters and --dim beside it")
    job, rates, limit = _job(chosen)
    strategies = priced(chosen.hard_negatives, chosen.uniform_negatives)
    found = costs(job, rates, strategies)
    title = (
        f"{job.targets:,} targets x {job.dim}, hidden {job.hidden}, batch {job.batch}, "
        f"{job.candidates} candidates, {job.devices} device(s)"
    )
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for name in "strategy search TFLOP s/step embed run GB MB".split():
        table.add_column(name, justify="left" if name in ("strategy", "search") else "right")
    for cost in found:
        fits = limit is None or cost.memory <= limit
        table.add_row(*_row(cost, chosen.steps), style=None if fits else "dim")
    Console().print(table)
    print("TFLOP and MB (between devices) a step, GB (memory) a device")
    for name, size in disk(job).items():
        print(f"disk, {name}: {size / 1e9:.3g} GB")
    print(_advice(choose(found, strategies, limit), limit))
    if chosen.output:
        rows = [vars(cost) | {"run": cost.total(chosen.steps)} for cost in found]
        write_json(Path(chosen.output), {"job": vars(job), "rates": vars(rates), "costs": rows})


def _advice(best: Cost | None, limit: float | None) -> str:
    """Say what to choose, and how to learn what does not fit if no memory was given."""
    size = "any memory" if limit is None else f"{limit / 1e9:.3g} GB"
    if best is None:
        return f"nothing fits into {size} a device: use more devices, or --dtype float16 or int8"
    hint = "" if limit else "; --device-memory says what does not fit"
    return f"choose: {best.strategy}, {best.search} search, on devices with {size}{hint}"


def _job(chosen: PlanFlags) -> tuple[Job, Rates, float | None]:
    """Describe the work, and the machine as measured or as given; and its memory in bytes."""
    limit = chosen.device_memory * 1e9 if chosen.device_memory else None
    shape = {
        "targets": chosen.targets,
        "hidden": chosen.corrector_hidden,
        "batch": chosen.batch_size,
        "negatives": chosen.hard_negatives + chosen.uniform_negatives,
        "steps": chosen.steps,
        "refreshes": chosen.refreshes,
        "devices": chosen.devices,
        "buffer_bytes": DTYPES[chosen.dtype].itemsize,
    }
    bandwidth = chosen.bandwidth * 1e9
    if chosen.flops is not None and chosen.parameters:
        towers = 2 if chosen.towers == "separate" else 1
        job = Job(
            **shape,
            dim=chosen.dim,
            parameters=towers * chosen.parameters,
            target_flops=2.0 * chosen.parameters * chosen.target_tokens,
            query_flops=2.0 * chosen.parameters * chosen.query_tokens,
        )
        fixed = job.parameters / _UPDATES
        rate = chosen.flops
        return job, Rates(rate, rate, rate, rate, rate, fixed, bandwidth), limit
    model = open_encoder(chosen)
    job = Job(
        **shape,
        dim=dimension(model),
        parameters=float(sum(p.numel() for p in model.parameters())),
        target_flops=encoder_flops(model, chosen.target_tokens),
        query_flops=encoder_flops(model, chosen.query_tokens),
    )
    rates, spread = calibrate(model, job, chosen.target_tokens, bandwidth)
    print(f"calibrated on {model.device}: the same work varied by up to {spread:.0%}")
    if spread > _QUIET:
        print("the machine is busy with other work: times are uncertain; plan again when it is not")
    free = free_memory(model.device)
    return job, rates, float(free) if limit is None and free else limit


def _row(cost: Cost, steps: int) -> list[str]:
    times = (_time(cost.embedding), _time(cost.total(steps)))
    numbers = (cost.flops / 1e12, cost.seconds), (cost.memory / 1e9, cost.traffic / 1e6)
    first, last = ([f"{number:.3g}" for number in pair] for pair in numbers)
    return [cost.strategy, cost.search, *first, *times, *last]


def _time(seconds: float) -> str:
    """Write a time in its unit.

    Example:
        >>> _time(90.0), _time(7200.0), _time(200_000.0)
        ('90 s', '2 h', '2.3 d')
    """
    if seconds < 600:
        return f"{seconds:.3g} s"
    return f"{seconds / 3600:.2g} h" if seconds < 1.5e5 else f"{seconds / 86_400:.2g} d"
