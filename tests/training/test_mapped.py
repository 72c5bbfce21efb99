"""A buffer three times the memory that is allowed: it is read from disk, and nothing grows."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from unstale.cli.main import main

DIM, TARGETS, WORDS = 1024, 300_000, 500
ALLOWED = DIM * TARGETS * 4 // 3
SMALL = "--steps 4 --batch-size 8 --hard-negatives 2 --corrector-hidden 32 --device cpu"

# Everything that a run needs anyway is there before the limit is set: torch, the model, its
# optimizer's moments. What may then be taken is a third of the buffer.
LIMITED = """
import json, resource, sys
from pathlib import Path
from unstale.cli.main import main

def size(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(l for l in lines if l.startswith(name + ":")).split()[1]) * 1024

first, flags, allowed, output = json.loads(sys.argv[1])
assert main([*first, "--output", output + "-first"]) == 0
before = size("RssAnon")
limit = size("VmData") + allowed
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
code = main([*flags, "--output", output])
print(json.dumps({"code": code, "grown": size("RssAnon") - before}))
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    words = [f"w{i}" for i in range(WORDS)]
    tokenizer = Tokenizer(WordLevel({w: i for i, w in enumerate(["[UNK]", *words])}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.enable_truncation(8)
    static = StaticEmbedding(tokenizer, embedding_dim=DIM)
    SentenceTransformer(modules=[static, Normalize()], device="cpu").save(str(folder / "model"))
    for name, targets in (("few", 100), ("many", TARGETS)):
        data = folder / name
        (data / "qrels").mkdir(parents=True)
        with (data / "corpus.jsonl").open("w") as file:
            for i in range(targets):
                text = f"w{i % WORDS} w{i * 7 % WORDS} w{i // WORDS % WORDS}"
                file.write(json.dumps({"_id": str(i), "text": text}) + "\n")
        lines = [json.dumps({"_id": f"q{i}", "text": f"w{i} w{i * 7 % WORDS}"}) for i in range(64)]
        (data / "queries.jsonl").write_text("\n".join(lines))
        qrels = "\n".join(f"q{i}\t{i}\t1" for i in range(64))
        for split in ("train", "test"):
            (data / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{qrels}\n")
    given = ["--data", str(folder / "many"), "--model", str(folder / "model"), "--device", "cpu"]
    assert main(["embed", *given, "--towers", "tied", "--output", str(folder / "buffer")]) == 0
    return folder


def limited(world: Path, output: Path, *flags: str) -> tuple[dict, str]:
    model = ["--model", str(world / "model"), "--towers", "tied", *SMALL.split()]
    first = ["train", "--data", str(world / "few"), *model, "--strategy", "corrected"]
    asked = ["train", "--data", str(world / "many"), "--buffer", str(world / "buffer"), *model]
    told = json.dumps([first, [*asked, *flags], ALLOWED, str(output)])
    command = [sys.executable, "-c", LIMITED, told]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("strategy", ["stale", "corrected"])
def test_a_buffer_three_times_the_memory_trains_from_disk(
    strategy: str, world: Path, tmp_path: Path
) -> None:
    flags = ["--strategy", strategy, "--mapped", "--no-memory", "--search", "exact"]
    found, _ = limited(world, tmp_path / "run", *flags)
    assert found["code"] == 0
    assert found["grown"] < ALLOWED


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("flags", "way"),
    [
        (["--strategy", "stale"], "--mapped"),
        (["--strategy", "corrected", "--mapped"], "--search exact"),
        (["--strategy", "corrected", "--mapped", "--search", "exact"], "--no-memory"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_way_out(
    flags: list[str], way: str, world: Path, tmp_path: Path
) -> None:
    found, said = limited(world, tmp_path / "run", *flags)
    assert found["code"] == 2
    assert way in said


def test_what_writes_to_the_buffer_cannot_leave_it_on_disk(
    beir: Path, bert_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--data", str(beir), "--model", str(bert_folder), "--output", str(tmp_path / "run")]
    assert main(["train", *given, "--strategy", "exhaustive", "--mapped", *SMALL.split()]) == 2
    assert (
        "--mapped leaves the buffer on disk, but exhaustive writes to it" in capsys.readouterr().err
    )
