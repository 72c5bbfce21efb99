"""What flags, folders and names tell is said before torch is imported, and no hub is asked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unstale.data.names import check_name
from unstale.encoders.packaged import packaged_model
from unstale.errors import InputError
from unstale.hub import is_hub_name

WRONG = {
    "train --data nope.csv --output x": "there is no such file or folder",
    "train --data fqa.csv --output x": "did you mean 'faq.csv'?",
    "train --data here/nope --output x": "there is no such file or folder",
    "train --data faq.csv": "--output is required",
    "train --data faq.csv --output here": "here is not empty",
    "train --strategy corected --output x": "did you mean corrected?",
    "train --model here/model --output x": "no model folder 'here/model'",
    "train --model faq.csv --output x": "faq.csv is a file",
    "train --trainer.weight_decai 1 --output x": "did you mean --trainer.weight_decay?",
    "train --holdout 0.9 --output x": "--holdout must be at most 0.5",
    "train --steps many --output x": "--steps must be a whole number, got 'many'",
    "train --epochs many --output x": "--epochs must be a number, got 'many'",
    "train --towers x --output x": "--towers must be one of tied, separate, got 'x'",
    "rag --reader here/reader --output x": "no model folder",
    "correct --vectors faq.csv --old-model here/old --output x": "no model folder 'here/old'",
    "rag --data faq.csv --corpus here/texts --output x": "here/texts: there is no such file",
    "compare --strategies in-batch,a --output x": "unknown strategy 'a'",
    "compare --seeds 1,1 --output x": "seeds must be different whole numbers",
    "convert --data faq.csv --to besir --output x": "unknown format 'besir'",
    "mine --data faq.csv --buffer here/buffer --output x": "here/buffer is not a buffer",
    "correct --vectors nope.npy --data faq.csv --output x": "nope.npy: there is no such file",
    "search query --run here": "here is not a finished training run (no model/)",
    "serve nowhere": "there is no run folder 'nowhere'",
    "report nowhere": "there is no run folder 'nowhere'",
    "verify nowhere": "nowhere: there is no such file or folder",
}
PROGRAM = """
import shlex, sys
from unstale.cli.main import main
for line in sys.stdin.read().splitlines():
    print(main(shlex.split(line)), sorted({"torch", "transformers", "datasets"} & set(sys.modules)))
"""


def test_errors_come_before_torch(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("query,positive\na,b\n")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").touch()
    environment = os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9"}  # whoever asks it, waits
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input="\n".join(WRONG), cwd=tmp_path, check=True,
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["2 []"] * len(WRONG)
    said = done.stderr.strip().splitlines()
    for line, (command, rule) in zip(said, WRONG.items(), strict=True):
        assert rule in line, command


def test_what_can_be_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_hub_name("runs/mine")
    (tmp_path / "runs").mkdir()
    assert not is_hub_name("runs/mine")  # a mistyped path
    check_name("owner/name")
    check_name("hf:name")
    with pytest.raises(InputError, match="cannot read the data 'runs/mine'"):
        check_name("runs/mine")


def test_a_packaged_model_is_found_by_its_name() -> None:
    folder = packaged_model("all-MiniLM-L6-v2")
    assert folder is not None
    assert (folder / "modules.json").is_file()
    assert packaged_model("sentence-transformers/all-MiniLM-L6-v2") == folder
    assert packaged_model("other/all-MiniLM-L6-v2") is None
