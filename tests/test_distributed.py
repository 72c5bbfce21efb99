"""What process 0 does for all: its result reaches the others, and so does its error, at once."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tests.test_processes import torchrun

_FAILS = """
import sys, time
from pathlib import Path
from unstale.distributed import first_alone, on_first, rank, start
from unstale.errors import InputError, RunError

class Unpicklable(RuntimeError):
    def __init__(self, one, two):
        super().__init__(f"{one}{two}")

def fail(error):
    if rank() == 0:
        raise error
    return "not for this process"

start("cpu")
assert on_first(lambda: f"of process {rank()}") == "of process 0"
said = []
for error in (InputError("a wrong flag"), OSError(28, "disk full"), Unpicklable(1, 2)):
    began = time.monotonic()
    try:
        on_first(lambda: fail(error))
    except Exception as found:
        said.append(f"{type(found).__name__}: {found}")
    try:
        with first_alone():
            fail(error)
    except Exception as found:
        said.append(f"{type(found).__name__}: {found}")
    assert time.monotonic() - began < 5
with first_alone():
    said.append("together again")
Path(sys.argv[1], f"{rank()}").write_text("\\n".join(said))
"""


@pytest.mark.timeout(120)
def test_an_error_of_process_0_is_that_of_all_at_once(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text(_FAILS)
    torchrun(2, str(script), str(tmp_path), timeout=100)
    first, second = ((tmp_path / name).read_text().splitlines() for name in "01")
    assert (
        first[:4]
        == second[:4]
        == 2 * ["InputError: a wrong flag"] + 2 * ["OSError: [Errno 28] disk full"]
    )
    assert first[4:6] == 2 * ["Unpicklable: 12"]
    assert all(
        line.startswith("RunError: another process of this job ended") for line in second[4:6]
    )
    assert first[6:] == second[6:] == ["together again"]


_OTHERS = """
import sys
from pathlib import Path
from unstale import load_dataset, load_encoder
from unstale.cli.main import main
from unstale.distributed import rank, start
from unstale.errors import InputError
from unstale.training.job import train

start("cpu")
top, small = Path(sys.argv[1]), "--hard-negatives 2 --device cpu --output".split()
vectors = ["--vectors", str(top / "v.npy"), "--device", "cpu", "--output"]
data, model = f"{top}/data-{rank()}", f"{top}/model-{rank()}"
same = ["--data", f"{top}/data-0", "--model", model, "--device", "cpu", "--output", f"{top}/e"]
commands = {"train": small, "compare": small, "mine": small, "correct": vectors}
commands |= {"embed": small[2:], "evaluate": small[2:]}
for name, flags in commands.items():
    print(name, file=sys.stderr, flush=True)
    assert main([name, "--data", data, "--model", f"{top}/model-0", *flags, f"{top}/run"]) == 2
print("model", file=sys.stderr, flush=True)
assert main(["evaluate", *same]) == 2
print("api", file=sys.stderr, flush=True)
try:
    train(load_dataset(data, progress=False), load_encoder(f"{top}/model-0"), top / "api")
except InputError as error:
    print(error, file=sys.stderr, flush=True)
"""


@pytest.mark.slow
def test_processes_that_read_other_data_or_models_work_at_nothing(
    beir: Path, static_model: SentenceTransformer, tmp_path: Path
) -> None:
    for number in (0, 1):
        shutil.copytree(beir, tmp_path / f"data-{number}")
        with (tmp_path / f"data-{number}" / "corpus.jsonl").open("a") as file:
            file.write(f'{{"_id": "more", "text": "text {number}"}}\n')
        static_model[0].embedding.weight.data += 0.01
        static_model.save_pretrained(str(tmp_path / f"model-{number}"))
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(121, 16)).astype("f4"))
    script = tmp_path / "others.py"
    script.write_text(_OTHERS)
    said = torchrun(2, str(script), str(tmp_path)).stderr
    for what, count in (("targets", 14), ("model", 2)):
        assert said.count(f"{what} differs between this process and") == count, said
    assert not [name for name in ("run", "e") if (tmp_path / name).exists()]
