"""Real commands in any order, killed at any file operation, on a folder that others use as well.

Every command is `unstale` as a user types it, in a process of its own, with a real training on a
few texts and a model of 8 dimensions. The data changes under it, files are damaged, and others put
theirs into the folder.
"""

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any, ClassVar

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
from tests.kill import Killer, results, weights
from tests.small_world import VARIANTS, write_data, write_model, write_vectors

from unstale.cli.folders import is_used
from unstale.errors import InputError
from unstale.integrity import SEAL, check_seal
from unstale.written import written

FEW = """--steps 3 --batch-size 4 --corrector-hidden 8 --probe-targets 8 --probe-queries 4
--save-steps 1 --device cpu""".split()
SMALL = ["--hard-negatives", "2", *FEW]
COMMANDS = {
    "train": ["train", "--strategy", "corrected", *SMALL],
    "compare": ["compare", "--strategies", "in-batch,corrected", "--seeds", "0", *SMALL],
    "rag": ["rag", "--k", "2", "--reader-max-length", "24", "--answer-length", "3", *FEW],
    "correct": ["correct", "--count", "60", "--k", "2", "--method", "linear"],
}
FOREIGN = ["thesis.tex", ".git/config", "model/notes.md", "checkpoints/mine", ".draft.tmp", "x.old"]
FOREIGN += ["checkpoints/checkpoint-2/mine", "buffer/deep/er/a", "cells/in-batch-0/mine"]
FOREIGN += ["report.html", "model/README.md", "results.json", "index/mine", "failure.json"]
FOREIGN += ["reader/mine", "embedded/sample/mine", "rows.parquet"]
LOOKS = ["verify", "report", "search river --run", "answer river --run"]
KILL = some.none() | some.integers(1, 200) | some.integers(1, 400)
CASES = {"commands": 0, "kills": 0, "refused": 0, "finished": 0, "edits": 0}  # in all


class Commands(RuleBasedStateMachine):
    """One output folder; the data may change, and others put files into the folder."""

    kind, texts, model = "train", 16, "--model"
    kill: ClassVar[Killer]
    home: ClassVar[Path]  # the model, and runs that nothing disturbed
    whole: ClassVar[dict[tuple[str, str, str], Any]]

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="machine-", dir=self.home))
        self.run, self.log, self.seeds = self.top / "run", self.top / "log", "0"
        self.foreign: dict[Path, str] = {self.top / "outside": "mine"}
        (self.top / "outside").write_text("mine")
        self.variant, self.tried = "a", set[str]()
        write_data(self.home / "data", "a", self.texts)

    def teardown(self) -> None:
        shutil.rmtree(self.top)

    def command(self, words: list[str], operation: int | None = None) -> int:
        """Run a command; whatever comes of it, it says so, and a refusal changes nothing."""
        CASES["commands"] += 1
        self.tried.add(self.variant)
        before = self.held()
        status = self.kill.run(words, self.log, operation)
        said = self.log.read_text(errors="replace")
        assert "Traceback" not in said, said
        assert status in (0, 2, 3, -signal.SIGKILL), said
        if status in (2, 3):
            assert "error: " in said or "stopped: " in said, said
        if status == 2:
            assert self.held() == before, said
        CASES["kills"] += status == -signal.SIGKILL
        CASES["refused"] += status in (2, 3)
        return status

    def held(self) -> dict[str, bytes]:
        """Read what a finished run consists of."""
        if not (self.run / SEAL).is_file():
            return {}
        names = [SEAL, "config.yaml", "results.json", "report.html"]
        files = [self.run / name for name in names]
        files += [f for part in ("model", "cells") for f in (self.run / part).rglob("model*/*")]
        return {
            str(f): f.read_bytes() for f in files if (self.run / SEAL).is_file() and f.is_file()
        }

    def begin_with(self, *flags: str, operation: int | None) -> int:
        return self.command(self.words(self.run, *flags), operation)

    def words(self, output: Path, *flags: str) -> list[str]:
        """Return the command as a user types it."""
        where = ["--data", str(self.home / "data"), self.model, str(self.home / "model")]
        if self.kind == "correct":
            where += ["--vectors", str(self.home / "old.npy")]
        return [*COMMANDS[self.kind], *where, "--output", str(output), *flags]

    @property
    def inside(self) -> list[Path]:
        return [path for path in self.foreign if path.is_relative_to(self.run)]

    @rule(operation=KILL, fresh=some.integers(0, 3))
    def begin(self, operation: int | None, fresh: int) -> None:
        if fresh:  # the user has deleted the folder
            shutil.rmtree(self.run, ignore_errors=True)
            self.foreign = {p: t for p, t in self.foreign.items() if p not in self.inside}
        used = is_used(self.run)
        status = self.begin_with(operation=operation)
        assert status == (2 if used else 0) or operation

    @rule(operation=KILL, more=some.booleans())
    def resume(self, operation: int | None, more: bool) -> None:
        flags = ["--seeds", "0,1"] if more and self.kind == "compare" else []
        self.command([self.kind, "--resume", "--output", str(self.run), *flags], operation)

    @rule(operation=KILL)
    def overwrite(self, operation: int | None) -> None:
        ours = (self.run / "config.yaml").is_file()
        status = self.begin_with("--overwrite", operation=operation)
        if self.inside and ours:
            assert status == 2 or operation

    @precondition(lambda self: self.run.is_dir())
    @rule(words=some.sampled_from([f"{look} RUN" for look in LOOKS]))
    def look(self, words: str) -> None:
        self.command([str(self.run) if word == "RUN" else word for word in words.split()])

    @rule(variant=some.sampled_from(VARIANTS))
    def edit_data(self, variant: str) -> None:
        CASES["edits"] += 1
        self.variant = variant
        write_data(self.home / "data", variant, self.texts)

    @rule(name=some.sampled_from(FOREIGN), text=some.text("xyz", max_size=3))
    def put(self, name: str, text: str) -> None:
        CASES["edits"] += 1
        path = self.run / name
        if path in self.foreign or not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            self.foreign[path] = text

    @precondition(lambda self: self.inside)
    @rule()
    def take_away(self) -> None:
        CASES["edits"] += 1
        for path in self.inside:
            path.unlink()
            del self.foreign[path]

    @precondition(lambda self: self.run.is_dir() and written(self.run))
    @rule(which=some.integers(0, 99), how=some.sampled_from(["flip", "cut", "delete"]))
    def damage(self, which: int, how: str) -> None:
        """Spoil a file of ours, but for the flags: whoever changes those asks for another run."""
        CASES["edits"] += 1
        names = sorted(n for n in written(self.run) or () if (self.run / n).is_file())
        paths = [self.run / n for n in names if n != "config.yaml"]
        paths = [path for path in paths if path not in self.foreign]
        if not paths:
            return
        path = paths[which % len(paths)]
        data = bytearray(path.read_bytes())
        if how == "delete":
            path.unlink()
        elif how == "cut":
            path.write_bytes(data[: len(data) // 2])
        elif data:
            data[which * 7919 % len(data)] ^= 1
            path.write_bytes(data)

    @invariant()
    def nothing_foreign_is_lost(self) -> None:
        for path, text in self.foreign.items():
            assert path.read_text() == text

    @invariant()
    def what_is_verified_is_what_nothing_disturbed(self) -> None:
        """A sealed folder that passes has the bits of an undisturbed run, all of one data set."""
        try:
            check_seal(self.run)
        except (InputError, OSError):
            return
        CASES["finished"] += 1
        found = results_of(self.run), weights_of(self.run)
        seeds = ",".join(sorted({str(run["seed"]) for run in found[0].get("runs", ())}))
        assert any(found == self.undisturbed(variant, seeds) for variant in self.tried)

    def undisturbed(self, variant: str, seeds: str) -> Any:
        """Return what a run ends with that nothing disturbed; it is made once."""
        key = self.kind, variant, seeds
        if key not in self.whole:
            run = self.home / "-".join(key)
            write_data(self.home / "data", variant, self.texts)
            more = ["--seeds", seeds] if self.kind == "compare" else []
            assert self.kill.run(self.words(run, *more), self.log) == 0, self.log.read_text()
            self.whole[key] = results_of(run), weights_of(run)
            write_data(self.home / "data", self.variant, self.texts)
        return self.whole[key]


class Comparisons(Commands):
    """The same for `compare`, whose finished cells are reused."""

    kind = "compare"


class Questions(Commands):
    """The same for `rag`: a retriever and a reader."""

    kind, model = "rag", "--retriever"


class Migrations(Commands):
    """The same for `correct`: vectors instead of weights."""

    kind, texts = "correct", 70


MACHINES = {machine.kind: machine for machine in (Commands, Comparisons, Questions, Migrations)}


def results_of(run: Path) -> dict[str, Any]:
    """Read results without the verdict of a migration, whose words name times."""
    return {name: value for name, value in results(run).items() if name != "verdict"}


def weights_of(run: Path) -> dict[str, Any]:
    """Read all weights, or the vectors and what is known of each."""
    ours = {"vectors.npy", "rows.parquet"} & (written(run) or set())
    files = [run / name for name in sorted(ours)]
    folders = [f.parent for f in run.rglob("model")]
    found: dict[str, Any] = {f.name: f.read_bytes() for f in files}
    held = {f.relative_to(run).as_posix(): weights(f) for f in folders}
    return found | {name: own for name, own in held.items() if own}  # a folder may be foreign


@pytest.fixture(scope="module")
def home(kill: Killer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, Commands.whole, Commands.kill = tmp_path_factory.mktemp("machines"), {}, kill
    Commands.home = folder
    write_model(folder / "model")
    write_vectors(folder / "old.npy", folder / "model", Migrations.texts)
    return folder


def run_machine(machine: type[Commands], examples: int, steps: int) -> None:
    before = dict(CASES)
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    chosen = settings(
        max_examples=examples, stateful_step_count=steps, suppress_health_check=checks
    )
    try:
        run_state_machine_as_test(machine, settings=chosen)
    finally:
        print({name: count - before[name] for name, count in CASES.items()})


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("kind", ["train", "compare"])
def test_a_few_orders_of_commands(kind: str) -> None:
    run_machine(MACHINES[kind], 2, 5)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("kind", list(MACHINES))
def test_many_orders_of_commands(kind: str) -> None:
    run_machine(MACHINES[kind], int(os.environ.get("MACHINES", "40")), 16)
