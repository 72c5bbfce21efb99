"""Run every command and all Python of README.md and docs/ on small data, in a scratch folder.

    python -m scripts.run_docs                 # all of them, some minutes
    python -m scripts.run_docs docs/rag.md     # those of some pages

Data and models that the pages name are made small under the same names (`small_world.py`), so that
a command runs as it is written, but for what the tables below say. What cannot run here is parsed.
"""

import contextlib
import io
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from scripts.check_command import NUMBERS, UNSTALE, check
from scripts.documented import ROOT, Command, Snippet, commands, external_links, pages, snippets

# Not run but parsed: a word that the command contains, and why.
SKIPPED = {
    "ray": "needs unstale[ray]; tests/migration/test_ray.py runs the same",
    "torchrun": "several devices or machines; tests/test_processes.py starts two processes",
    "hf:sentence-transformers/natural-questions": "downloads a dataset",
    "make": "sets up or tests the whole project; `make demo` is run as what it calls",
    "pip": "installs packages",
    "pytest": "is a test by itself",
    "serve": "does not end by itself; tests/serve opens the page",
    "runs/nq-gtr-compare/results.json": "needs the results of a run of the paper's size",
    "experiments/upgrade.py": "needs the vectors of two encoders in a folder",
}
# A word, and what stands for it.
WORDS = NUMBERS | {
    "$SLURM_ARRAY_TASK_ID/8": "0/1",
    "docstrings": "small-docstrings",  # the true ones are 20,000
    "NAME": "toy-circle",
    "DOCSTRINGS": "small-docstrings",
    # The small MiniLM is untrained: its scores are alike, and none is 5% below a positive's.
    "in-batch; GIST; large batch; mined": "in-batch; GIST; large batch",
    "in-batch; mined": "in-batch",
    "google/flan-t5-base": "tiny",
    "google/flan-t5-small": "tiny",
    "qdrant:http://localhost:6333#docs?id=doc_id": "old-vectors",  # tests/migration has the stores
}
# A whole command, and what stands for it.
INSTEAD = {"make demo": "unstale demo --output runs/demo"}
# Flags that shorten a command or a script, given or not.
_GRID = {"--data": "my-data", "--set.steps": "2", "--set.seeds": "0", "--train.batch_size": "8"}
SHORTER = {
    "demo": {"--steps": "3"},
    "train": {"--steps": "4", "--batch-size": "8", "--probe-targets": "32"},
    "compare": {"--steps": "2", "--batch-size": "8", "--seeds": "0", "--probe-targets": "32"},
    "rag": {"--steps": "2", "--batch-size": "4", "--eval-questions": "4", "--probe-targets": "32"},
    "correct": {"--fraction": "0.5"},
    "doctor": {"--seconds": "10", "--steps": "4", "--batch-size": "8"},
    "hidden-units": _GRID,
    "uniform-negatives": _GRID,
    "starting-points": _GRID,
    "sampling": _GRID,
    "hard-negatives": _GRID,
    "quality-per-second": _GRID | {"--set.steps": "8", "--set.points": "1"},
    "recovered-gap": _GRID | {"--set.refreshes": "2"},
    "number-of-targets": _GRID | {"--set.sizes": "[300,0]"},
    "trade-off": _GRID | {"--set.steps": "4", "--set.refreshes": "[1,2]"},
    "generalization": {"--set.queries": "1", "--set.epochs": "2", "--set.signs": "1"},
    "synthetic-parameters": {"--set.epochs": "2", "--set.gains": "1"},
    "synthetic-samples": {"--set.epochs": "2", "--set.repeats": "1"},
    "toy-circle": {"--set.epochs": "5"},
    "small-to-large": {"--set.targets": "200", "--set.queries": "60", "--set.epochs": "2"},
    "migration": {"--set.targets": "300", "--set.queries": "60", "--set.fractions": "[0.3,0.5]"}
    | {"--set.resamples": "2", "--set.asked": "20"},
    "benchmarks/formats.py": {"--lines": "100"},
    "benchmarks/mine.py": {"--queries": "40", "--rounds": "1"},
    "benchmarks/corrector.py": {"--steps": "4"},
    "benchmarks/search.py": {"--rounds": "1", "--targets": "2000", "--steps": "6"},
    "benchmarks/large.py": {"--targets": "2000", "--folder": "large"},
    "benchmarks/rag_step.py": {"--steps": "2"},
    "benchmarks/vs_sentence_transformers.py": {"--steps": "2", "--batch-size": "8"}
    | {"--large-batch": "16"},
}
# Flags that are made smaller where they are given.
WHERE_GIVEN = {
    "--epochs": "0.05",
    "--eval-steps": "2",
    "--save-steps": "2",
    "--refresh": "2",
    "--rag.eval_questions": "4",
    "--set.seconds": "5",
}
# In Python: a piece of code, and what stands for it.
CODE = {'"docstrings"': '"small-docstrings"', "steps=300": "steps=2", "epochs=3": "steps=2"}
# Python that is only compiled: a name in it, and why.
COMPILED = {
    "QueryAdapter.load": "needs a vector database; tests/migration runs it",
    "JoinedQueries.load": "needs both models; tests/migration runs it",
    "ReadThrough": "needs a vector database; tests/migration runs it",
    "chroma.get_collection": "needs three vector databases",
}
# The paper's scale: the command is resolved and printed, not trained.
DRY = ("experiments/nq.py", "experiments/msmarco.py", "experiments/rlm.py")


def shorten(words: Sequence[str]) -> list[str]:
    """Apply the tables to a command: what is to be run for it here."""
    words = INSTEAD.get(" ".join(words), "").split() or list(words)
    short = [WORDS.get(word, word) for word in words]
    if "--resume" in short:  # the folder knows its flags, and refuses others
        return short
    name = short[2] if short[1] == "experiment" else short[1]
    wanted = dict(SHORTER.get(name, {}))
    if "--epochs" in short:
        wanted.pop("--steps", None)
    if "--count" in short:
        wanted.pop("--fraction", None)
    if "--reader" in short and name == "compare":
        wanted["--rag.eval_questions"] = "4"
    if name in DRY and "--slice" not in short:
        return [*short, "--dry-run"]
    for i, word in enumerate(short):
        if word in wanted or word in WHERE_GIVEN:
            short[i + 1] = wanted.pop(word, None) or WHERE_GIVEN[word]
    return [*short, *(part for flag in wanted.items() for part in flag)]


def reason_to_skip(command: Command) -> str | None:
    """Say why a command cannot run here, if it cannot."""
    if " ".join(command.words) in INSTEAD:
        return None
    return next((why for word, why in SKIPPED.items() if word in command.words), None)


def reason_to_compile(snippet: Snippet) -> str | None:
    """Say why Python from a page cannot run here, if it cannot."""
    return next((why for name, why in COMPILED.items() if name in snippet.code), None)


def run(words: Sequence[str]) -> str | None:
    """Run a command in the working folder; return what it said if it failed."""
    program, *rest = words
    if "--output" in rest and "--resume" not in rest:  # another page wrote there
        shutil.rmtree(rest[rest.index("--output") + 1], ignore_errors=True)
    said = io.StringIO()
    if program in UNSTALE:  # in this process: importing torch takes longer than most commands
        from unstale.cli.main import main

        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code: object = main(rest)
            except SystemExit as end:
                code = end.code
            except Exception:
                code = traceback.format_exc()
        return f"{said.getvalue()[-2000:]}\nexit status {code}" if code else None
    known = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    script = [sys.executable, str(ROOT / rest[0]), *rest[1:]]
    done = subprocess.run(script, env=known, capture_output=True, text=True, check=False)
    return f"{done.stdout[-1000:]}\n{done.stderr[-2000:]}" if done.returncode else None


def run_python(snippet: Snippet, given: dict[str, object]) -> str | None:
    """Run Python from a page, with the names that its sentences take for granted."""
    code = snippet.code
    for old, new in CODE.items():
        code = code.replace(old, new)
    Path("snippet.py").write_text("\n" * (snippet.line - 1) + code, "utf-8")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            shutil.rmtree("runs/python", ignore_errors=True)  # another page wrote there
            runpy.run_path("snippet.py", dict(given), run_name="__main__")
        except Exception:
            return f"{said.getvalue()[-1000:]}\n{traceback.format_exc()}"
    return None


def main(chosen: Sequence[str]) -> int:
    """Run the commands of the chosen pages, or of all; return how many failed."""
    from scripts.small_world import given, make_world

    order = [page.relative_to(ROOT).as_posix() for page in pages()]
    found = [c for c in [*commands(), *snippets()] if not chosen or c.page in chosen]
    found.sort(key=lambda c: (order.index(c.page), c.line))
    failed, skipped, done = 0, 0, set()
    with tempfile.TemporaryDirectory(prefix="docs-") as scratch:
        make_world(Path(scratch))
        os.chdir(scratch)
        for command in found:
            same = command.code if isinstance(command, Snippet) else command.words
            if same in done:
                skipped += 1
                print(f"as above       {command}", flush=True)
                continue
            if isinstance(command, Command) and (why := reason_to_skip(command)):
                check(command)
                skipped += 1
                print(f"parsed  {command}\n        not run: {why}", flush=True)
                continue
            if isinstance(command, Snippet) and (why := reason_to_compile(command)):
                compile(command.code, command.page, "exec")
                skipped += 1
                print(f"compiled  {command}\n        not run: {why}", flush=True)
                continue
            began = time.perf_counter()
            if isinstance(command, Snippet):
                wrong = run_python(command, given())
            else:
                wrong = run(shorten(command.words))
            done.add(same)
            failed += wrong is not None
            took = time.perf_counter() - began
            print(f"{'FAILED' if wrong else 'ran'}  {took:4.0f} s  {command}", flush=True)
            if wrong:
                print(wrong, flush=True)
        os.chdir(ROOT)
    print(
        f"{len(found) - skipped - failed} ran, {failed} failed, {skipped} only parsed or the same"
    )
    print("links to elsewhere, not followed:", *external_links(), sep="\n  ")
    return failed


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
