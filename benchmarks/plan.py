"""Does `unstale plan` foresee the time of a step? It plans, then trains, and prints both.

python benchmarks/plan.py            # about two minutes
"""

import contextlib
import io
import json
import tempfile
from pathlib import Path

from unstale.cli.main import main
from unstale.data.load import load_dataset
from unstale.encoders.load import load_encoder
from unstale.encoders.tokenise import target_tokens

STEPS = 16
RUNS = {
    ("in-batch", "none"): ["--strategy", "in-batch"],
    ("stale", "exact"): ["--strategy", "stale"],
    ("corrected", "exact"): ["--search", "exact"],
    ("corrected", "rolling"): ["--search", "rolling"],
}


def quietly(arguments: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(arguments) == 0


def run(top: Path) -> None:
    dataset = load_dataset("docstrings")
    encoder = load_encoder("tiny", towers="separate", device="cpu")
    tokens = round(target_tokens(encoder, dataset, progress=False).lengths.mean())
    size = ["--targets", str(len(dataset.targets)), "--target-tokens", str(tokens)]
    buffer = str(top / "buffer")
    quietly(["embed", "--device", "cpu", "--output", buffer])
    print(f"{len(dataset.targets):,} targets of {tokens} tokens; seconds a step")
    for (strategy, search), flags in RUNS.items():
        plan = top / "plan.json"
        quietly(["plan", *size, "--query-tokens", "12", "--device", "cpu", "--output", str(plan)])
        costs = json.loads(plan.read_text())["costs"]
        said = next(c for c in costs if (c["strategy"], c["search"]) == (strategy, search))
        output = top / f"{strategy}-{search}"
        few = ["--steps", str(STEPS), "--meter-steps", "1000", "--buffer", buffer]
        quietly(["train", "--device", "cpu", *few, *flags, "--output", str(output)])
        entry = json.loads((output / "results.json").read_text())["runs"][0]
        true = entry["seconds"]["training"] / STEPS
        error = said["seconds"] / true - 1
        planned = said["seconds"]
        print(f"{strategy:>9}, {search:<7} planned {planned:.3f}, took {true:.3f}: {error:+.0%}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))
