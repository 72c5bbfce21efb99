"""Commands in any order, killed at any file operation, on a folder that others use as well.

The job below is a run without its arithmetic: it goes through the same folder, list, lock,
checkpoints, cells, identity and seal as `unstale train` and `unstale compare`, but a step is a
hash. So thousands of orders can be tried. What a real training does when it is killed is in
`test_resume.py` and `test_campaign.py`.
"""

import contextlib
import hashlib
import io
import logging
import os
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from unstale.budget import read_object
from unstale.cli import verify
from unstale.cli.options import CompareFlags, TrainFlags
from unstale.cli.options_inspect import VerifyFlags
from unstale.cli.output import run_folder
from unstale.errors import InputError, RunError
from unstale.files import atomic_file, atomic_folder, write_json
from unstale.integrity import SEAL
from unstale.locks import release
from unstale.results import RunResult
from unstale.training.cells import CELL, Cell, run_cells
from unstale.training.checkpoints import _SAVING, _put_in_place, last_checkpoint
from unstale.training.identity import FORMAT, check_identity
from unstale.written import written

STEPS = 4
FOREIGN = ["thesis.tex", ".git/config", "model/notes.md", "checkpoints/mine", ".draft.tmp", "x.old"]
FOREIGN += ["checkpoints/checkpoint-2/mine", "buffer/deep/er/a", "cells/in-batch-0/mine"]
EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"}
CASES = {"rules": 0, "kills": 0, "refused": 0, "finished": 0}  # how many there were in all


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def expected(data: str, seed: int) -> str:
    """Return what a run that nothing disturbed ends with."""
    total = digest(data, seed)
    for step in range(1, STEPS + 1):
        total = digest(total, step)
    return total


def identity(data: str, seed: int) -> dict[str, str]:
    return {"format": FORMAT, "data": data, "seed": str(seed)}


def train(output: Path, data: str, seed: int, resume: bool) -> RunResult:
    """Do as `train_checked`: a buffer, steps with checkpoints, a model, and results."""
    made = identity(data, seed)
    write_json(output / "buffer" / "meta.json", {"rows": 3})
    start = last_checkpoint(output) if resume else None
    done, total = 0, digest(data, seed)
    if start is not None:
        state = read_object(start / "state.json")
        check_identity(start, state["identity"], made)
        done, total = state["step"], state["total"]
    for step in range(done + 1, STEPS + 1):
        total = digest(total, step)
        pending = output / "checkpoints" / _SAVING / f"checkpoint-{step}"
        shutil.rmtree(pending.parent, ignore_errors=True)
        pending.mkdir(parents=True)
        state = {"identity": made, "step": step, "total": total}
        write_json(pending / "state.json", state)
        _put_in_place(pending, output / "checkpoints", keep=2)
        shutil.rmtree(pending.parent, ignore_errors=True)
    with atomic_folder(output / "model") as model:
        (model / "deep").mkdir()
        (model / "deep" / "weights").write_text(total)
    with atomic_file(output / "test.npz") as file, file.open("wb") as out:
        np.savez(out, **{"recall@1": np.ones(2)})
    return RunResult(strategy="in-batch", metrics={"recall@1": 1.0}, seed=seed, identity=made)


def work(kind: str, output: Path, data: str, *, resume: bool, overwrite: bool) -> None:
    """Run the command, as `main` would."""
    flags: dict[str, Any] = {"output": str(output), "resume": resume, "overwrite": overwrite}
    chosen = CompareFlags(**flags) if kind == "compare" else TrainFlags(**flags)
    with run_folder(kind, chosen) as folder:
        if folder.finished:
            return
        place = folder.begin()
        if kind == "train":
            runs = [train(place, data, 0, resume)]
        else:
            cells = [
                Cell(
                    place / "cells" / f"in-batch-{seed}",
                    f"seed {seed}",
                    lambda where, begun, seed=seed: train(where, data, seed, begun),
                    identity(data, seed),
                )
                for seed in (0, 1)
            ]
            runs = [done.entry for done in run_cells(cells)]
        folder.finish({"name": data}, runs)


def in_child(kill_at: int | None, *arguments: Any, **flags: Any) -> int:
    """Run the command in a child, which dies at its n-th file operation; return its status."""
    child = os.fork()
    if child == 0:
        left = [kill_at or 0]

        def watch(event: str, _: tuple[Any, ...]) -> None:
            if event in EVENTS:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        status = 1
        try:
            if kill_at:
                sys.addaudithook(watch)
            work(*arguments, **flags)
            status = 0
        except (InputError, OSError):
            status = 2
        except RunError:
            status = 3
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Commands(RuleBasedStateMachine):
    """One output folder; the data may change, and others put files into the folder."""

    kind = "train"

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="machine-"))
        self.run, self.data = self.top / "run", "a"
        self.foreign: dict[Path, str] = {self.top / "outside": "mine"}
        (self.top / "outside").write_text("mine")
        self.spoilt = False

    def teardown(self) -> None:
        release()
        shutil.rmtree(self.top)

    def command(self, kill_at: int | None = None, **flags: bool) -> int:
        CASES["rules"] += 1
        given = {"resume": False, "overwrite": False} | flags
        status = in_child(kill_at, self.kind, self.run, self.data, **given)
        assert status in (0, 2, 3, -signal.SIGKILL), status
        CASES["kills"] += status == -signal.SIGKILL
        CASES["refused"] += status in (2, 3)
        return status

    @property
    def inside(self) -> list[Path]:
        return [path for path in self.foreign if path.is_relative_to(self.run)]

    @rule(kill_at=some.none() | some.integers(1, 120))
    def begin(self, kill_at: int | None) -> None:
        used = self.run.is_dir() and any(
            p.name not in (".lock", ".unstale-files") for p in self.run.iterdir()
        )
        status = self.command(kill_at)
        assert not used or status == 2 or kill_at

    @rule(kill_at=some.none() | some.integers(1, 120))
    def resume(self, kill_at: int | None) -> None:
        self.command(kill_at, resume=True)

    @rule(kill_at=some.none() | some.integers(1, 120))
    def overwrite(self, kill_at: int | None) -> None:
        status = self.command(kill_at, overwrite=True)
        if self.inside and (self.run / "config.yaml").is_file():
            assert status == 2 or kill_at
        if status == 0:
            self.spoilt = False

    @rule(data=some.sampled_from("abc"))
    def edit_data(self, data: str) -> None:
        CASES["rules"] += 1
        self.data = data

    @rule(name=some.sampled_from(FOREIGN), text=some.text("xyz", max_size=3))
    def put(self, name: str, text: str) -> None:
        CASES["rules"] += 1
        path = self.run / name
        if path in self.foreign or not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            self.foreign[path] = text

    @precondition(lambda self: self.inside)
    @rule()
    def take_away(self) -> None:
        CASES["rules"] += 1
        for path in self.inside:
            path.unlink()
            del self.foreign[path]

    @precondition(lambda self: self.run.is_dir() and written(self.run))
    @rule(which=some.integers(0, 99), how=some.sampled_from(["flip", "cut", "delete"]))
    def damage(self, which: int, how: str) -> None:
        CASES["rules"] += 1
        names = sorted(n for n in written(self.run) or () if (self.run / n).is_file())
        paths = [self.run / n for n in names if self.run / n not in self.foreign]
        if not paths:
            return
        path = paths[which % len(paths)]
        data = bytearray(path.read_bytes())
        if how == "delete":
            path.unlink()
        elif how == "cut":
            path.write_bytes(data[: len(data) // 2])
        elif data:
            data[which % len(data)] ^= 1
            path.write_bytes(data)
        self.spoilt = True

    @rule()
    def verify(self) -> None:
        CASES["rules"] += 1
        good = self.verified()
        if good and (self.run / SEAL).is_file():
            CASES["finished"] += 1

    def verified(self) -> bool:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                verify.run(VerifyFlags(str(self.run)))
        except InputError:
            return False
        return True

    @invariant()
    def nothing_foreign_is_lost(self) -> None:
        for path, text in self.foreign.items():
            assert path.read_text() == text

    @invariant()
    def what_is_verified_is_what_was_asked_for(self) -> None:
        """A sealed folder that passes holds the results of one data set, and no mixture."""
        if not (self.run / SEAL).is_file() or not self.verified():
            return
        results = read_object(self.run / "results.json")
        assert len({run["identity"]["data"] for run in results["runs"]}) == 1
        for run in results["runs"]:
            seed = run["seed"]
            place = self.run if self.kind == "train" else self.run / "cells" / f"in-batch-{seed}"
            assert (self.kind == "train") or (place / CELL).is_file()
            weights = (place / "model" / "deep" / "weights").read_text()
            assert weights == expected(run["identity"]["data"], seed)


class Comparisons(Commands):
    """The same for `compare`, whose finished cells are reused."""

    kind = "compare"


def run_machine(machine: type[Commands], examples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unstale.files._sync", lambda path: None)  # no power is lost here
    logging.disable(logging.CRITICAL)
    before = dict(CASES)
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples, stateful_step_count=16, suppress_health_check=checks
            ),
        )
    finally:
        logging.disable(logging.NOTSET)
    print({name: count - before[name] for name, count in CASES.items()})


@pytest.mark.parametrize("machine", [Commands, Comparisons], ids=["train", "compare"])
def test_a_few_orders_of_commands(machine: type[Commands], monkeypatch: pytest.MonkeyPatch) -> None:
    run_machine(machine, 3, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("machine", [Commands, Comparisons], ids=["train", "compare"])
def test_many_orders_of_commands(machine: type[Commands], monkeypatch: pytest.MonkeyPatch) -> None:
    run_machine(machine, int(os.environ.get("MACHINES", "60")), monkeypatch)
