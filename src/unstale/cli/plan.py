"""`unstale plan`."""

from pathlib import Path

from rich import box
from rich.table import Table

from unstale.buffer.stored import DTYPES
from unstale.cli.options_inspect import PlanFlags
from unstale.cli.read import open_encoder
from unstale.encoders.embed import dimension, is_static
from unstale.files import write_json
from unstale.machine import free_memory
from unstale.plan.cost import Job, Rates, choose, costs, disk
from unstale.plan.measure import calibrate, encoder_flops
from unstale.report.numbers import duration
from unstale.shown import console, say

_QUIET = 0.5  # by how much timings of the same work may differ before a plan is doubted
_UPDATES = 2e10  # weights a second that Adam moves at a terabyte a second, 40 bytes to a weight


def run(chosen: PlanFlags) -> None:
    """Measure the machine, unless its speed is given, and print what a run would cost."""
    job, rates, limit = _job(chosen)
    found = costs(job, rates)
    title = (
        f"{job.targets:,} targets x {job.dim}, hidden {job.hidden}, batch {job.batch}, "
        f"{job.candidates} candidates, {job.steps:,} steps, {job.devices} device(s)"
    )
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for name in "strategy search TFLOP s/step embed run GB MB".split():
        table.add_column(name, justify="left" if name in ("strategy", "search") else "right")
    for cost in found:
        fits = limit is None or cost.memory <= limit
        numbers = cost.flops / 1e12, cost.seconds, cost.memory / 1e9, cost.traffic / 1e6
        flops, seconds, memory, traffic = (f"{number:.3g}" for number in numbers)
        times = duration(cost.embedding), duration(cost.run)
        row = cost.strategy, cost.search, flops, seconds, *times, memory, traffic
        table.add_row(*row, style=None if fits else "dim")
    console().print(table)
    say("TFLOP and MB (between devices) a step, GB (memory) a device")
    yours = "set yours with --steps, --targets and --batch-size"
    say(f"run: the embedding and {job.steps:,} steps ({yours})")
    for name, size in disk(job).items():
        say(f"disk, {name}: {size / 1e9:.3g} GB")
    room = "any memory" if limit is None else f"{limit / 1e9:.3g} GB"
    if best := choose(found, limit):
        hint = "" if limit else "; --device-memory says what does not fit"
        say(f"choose: {best.strategy}, {best.search} search, on devices with {room}{hint}")
    else:
        say(f"nothing fits into {room} a device: use more devices, or --dtype float16 or int8")
    if chosen.output:
        rows = [vars(cost) for cost in found]
        write_json(Path(chosen.output), {"job": vars(job), "rates": vars(rates), "costs": rows})


def _job(chosen: PlanFlags) -> tuple[Job, Rates, float | None]:
    """Describe the work, and the machine as measured or as given; and its memory in bytes."""
    if chosen.flops is None:
        model = open_encoder(chosen)
        dim, weights = dimension(model), float(sum(p.numel() for p in model.parameters()))
        static = is_static(model)
        target, query = (
            encoder_flops(model, tokens) for tokens in (chosen.target_tokens, chosen.query_tokens)
        )
    else:
        assert chosen.parameters is not None
        static = False
        dim, weights = chosen.dim, chosen.parameters * (2 if chosen.towers == "separate" else 1)
        target = 2.0 * chosen.parameters * chosen.target_tokens
        query = 2.0 * chosen.parameters * chosen.query_tokens
    job = Job(
        targets=chosen.targets,
        dim=dim,
        hidden=chosen.corrector_hidden,
        batch=chosen.batch_size,
        negatives=chosen.hard_negatives + chosen.uniform_negatives,
        parameters=weights,
        target_flops=target,
        query_flops=query,
        steps=chosen.steps,
        refreshes=chosen.refreshes,
        devices=chosen.devices,
        buffer_bytes=DTYPES[chosen.dtype].itemsize,
        static=static,
    )
    limit, bandwidth = 1e9 * (chosen.device_memory or 0) or None, chosen.bandwidth * 1e9
    if (speed := chosen.flops) is not None:
        rates = Rates(speed, speed, speed, speed, speed, weights / _UPDATES, bandwidth)
        return job, rates, limit
    rates, spread = calibrate(model, job, chosen.target_tokens, bandwidth)
    say(f"calibrated on {model.device}: the same work varied by up to {spread:.0%}")
    if spread > _QUIET:
        say("the machine is busy with other work: times are uncertain; plan again when it is not")
    return job, rates, limit or float(free_memory(model.device) or 0) or None
