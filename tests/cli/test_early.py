"""What flags, folders and names tell is said before torch is imported, and no hub is asked."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from unstale.cli.early import is_small
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
    "rag --reader all-MiniLM-L6-v2 --output x": "all-MiniLM-L6-v2 is a bert: a reader needs an",
    "compare --reader bert --output x": "bert is a bert: a reader needs an encoder and a decoder",
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
    "report here": "no results.json in here",
    "answer '' --run run": "the question is empty",
    "answer q --run run": "run is not a finished run of `unstale rag`",
    "search ' ' --run run": "the query is empty",
    "search q --run moved": "cannot read the data '/was/here.csv'",
    "verify here": "nothing to verify in here",
    "train --mapped --output x": "--mapped leaves the buffer on disk, but staged writes to it",
    "train --strategy two-round --mapped --output x": "but two-round writes to it",
    "train --no-share-candidates --output x": "staged needs --share-candidates",
    "train --strategy stochastic --subset-size 2 --output x": "cannot take 4 negatives from",
    "train --strategy in-batch --max-score 1 --output x": "in-batch cannot filter",
    "train --range-max 2 --output x": "cannot mine 4 targets between --range-min 0 and",
    "train --trainer.max_grad_norm abc --output x": "max_grad_norm must be a number, got 'abc'",
    "train --trainer.bf16 maybe --output x": "--trainer.bf16 must be true or false",
    "train --trainer.optim adamz --output x": "--trainer.optim must be one of adamw_torch,",
    "train --trainer.lr_scheduler_type cosin --output x": "must be one of linear, cosine,",
    "train --trainer.logging_strategy never --output x": "must be one of no, steps, epoch",
    "train --trainer.adam_beta1 2 --output x": "from 0 to below 1, got 2",
    "train --trainer.report_to wandbb --output x": "--trainer.report_to wandbb: it must be none",
    "train --trainer.bf16 true --trainer.fp16 true --output x": "exclude each other",
    "train --layers 2 --output x": "--layers 2: tiny has no transformer layers",
    "train --model all-MiniLM-L6-v2 --layers 7 --output x": "has 6 layers to choose from",
    "rag --retriever all-MiniLM-L6-v2 --layers 7 --output x": "has 6 layers to choose from",
    "plan --model all-MiniLM-L6-v2 --layers 7": "has 6 layers to choose from",
    "embed --model cut --layers 3 --output x": "--layers 3: cut has 2 layers to choose from",
    "train --model all-MiniLM-L6-v2 --query-max-length 257 --output x": "at most 256 tokens",
    "train --model all-MiniLM-L6-v2 --matryoshka-dims [400] --output x": "has 384 dimensions",
    "train --matryoshka-dims [0] --output x": "--matryoshka-dims 0: it must be at least 1",
    "train --strategy stale-frozen --towers tied --output x": "needs separate towers",
    "train --strategy stale-frozen --model all-MiniLM-L6-v2 --output x": "needs separate towers",
    "train --eval-split '' --output x": "docstrings has no split ''",
    "train --buffer here --output x": "here is not a buffer: it has no manifest.json",
    "train --output faq.csv/x": "faq.csv is a file",
    "train --output /proc/x": "--output /proc/x: nothing can be written to /proc (",
    "train --data empty.csv --output x": "empty.csv has no row with a query and a positive",
    "demo --output faq.csv": "--output faq.csv is a file",
    "demo --output here": "here is not empty",
    "compare --strategies stale,staged --mapped --output x": "but staged writes to it",
    "compare --strategies in-batch --max-score 1 --output x": "in-batch cannot filter",
    "compare --strategies stale --trainer.max_grad_norm abc --output x": "must be a number",
    "compare --reader tiny --rag.k 4 --rag.start_targets 4 --output x": "--start-targets 4: some",
    "rag --strategy frozen --reader-lr 0 --output x": "trains nothing",
    "rag --patience 2 --dev-questions 0 --output x": "--patience needs --dev-questions",
    "rag --strategy exhaustive --mapped --output x": "but exhaustive writes to it",
    "correct --vectors old.npy --k 0 --output x": "--k must be at least 1, got 0",
    "correct --vectors old.npy --count -4 --output x": "--count must be at least 1, got -4",
    "correct --vectors old.npy --re-embed 1.5 --output x": "--re-embed must be a share of",
    "correct --vectors old.npy --way query-side --output x": "query-side needs --old-model",
    "plan --parameters 1e6": "--parameters needs --flops beside it",
    "train --lr 1": "did you mean --learning-rate?",
    "train --batch_size 1": "did you mean --batch-size?",
    "train --data other.csv --output x": "other.csv:2: no column query",
    "train --data faq.csv:query=title --output x": "no column title",
    "train --data other.jsonl --output x": "other.jsonl:1: no column query",
    "train --data here --output x": "no format fits here",
    "train --data beir --output x": "beir has no queries.jsonl",
    "train --data faq.csv --eval-split final --output x": "faq.csv has no split 'final'",
    "train --data faq.csv --holdout 0 --output x": "--holdout 0.1 takes a tenth",
    "train --data docstrings:nopackage --output x": "cannot find the package 'nopackage'",
    "train --data faq.csv --device gpu0 --output x": "--device must be one of cpu, cuda",
    "train --data faq.csv --device cuda:first --output x": "got 'cuda:first'",
    "train --data faq.csv --steps 9 --epochs 2 --output x": "--steps 9 and --epochs 2.0",
    "train --data faq.csv --layers 0 --output x": "--layers must be at least 1, got 0",
    "train --data faq.csv --refresh-schedule often --output x": "bad refresh schedule 'often'",
    "train --data faq.csv --min-score 2 --max-score 1 --output x": "--min-score 2.0 is above",
    "rag --strategy staged --output x": "unknown strategy 'staged'; choose from none, frozen",
    "rag --reader-lora 8 --output x": "--reader-lora needs a pretrained reader",
    "rag --relative-margin 0.1 --output x": "it compares with a positive, and questions with",
    "compare --reader tiny --absolute-margin 1 --output x": "the rules without one are max-score",
    "rag --range-min 3 --range-max 3 --output x": "cannot mine 1 targets between --range-min 3",
    "rag --data other.csv --output x": "other.csv: no column question",
    "rag --data asked.csv --output x": "asked.csv has no corpus",
    "rag --strategy none --max-score 1 --output x": "nothing to filter",
    "train --data sheet.xlsx --output x": "sheet.xlsx is a spreadsheet",
    "evaluate --model run --output x": "did you mean run/model?",
    "rag --data faq.csv:question=query,answer=positive --corpus here --output x": "holds no texts",
    "compare --strategy stale --output x": "a comparison takes --strategies and --seeds",
    "compare --strategies stale,stale --output x": "--strategies names stale twice",
    "compare --strategies stale:9 --output x": "expected a number from 1 to 3",
    "compare --rag.k 3 --output x": "--rag.* belong to a comparison with a --reader",
    "compare --reader tiny --rag.kk 3 --output x": "`unstale rag` has no kk",
    "evaluate --split final --output x": "docstrings has no split 'final'",
    "embed --data other.csv --output x": "other.csv:2: no column query",
    "doctor --data other.csv": "other.csv:2: no column query",
    "convert --output x": "--data is required: what to convert",
    "convert --data other.csv --output x": "other.csv:2: no column query",
    "mine --output x": "--data is required: what to mine for",
    "mine --data faq.csv --format besir --output x": "unknown format 'besir'",
    "mine --run here --output x": "here is not a finished run that keeps its corrector",
    "correct --output x": "--vectors is required",
    "correct --vectors faq.csv --output x": "faq.csv: unknown format '.csv'",
    "correct --vectors here --output x": "here is a folder without manifest.json",
    "correct --vectors old.npy --ids nope --output x": "nope: there is no such file",
    "correct --vectors old.npy --swap --output x": "--swap is for a collection",
    "correct --vectors old.npy --count 9 --fraction 0.1 --output x": "by one flag, not by",
    "plan --output faq.csv": "--output faq.csv exists",
    "plan --flops 1e12": "--flops needs --parameters",
    "plan --model here/model": "no model folder",
    "experiment nope": "there is no experiment 'nope'",
    "experiment toy-circle --set.epoch 3": "toy-circle has no setting epoch; it takes epochs, seed",
    "experiment toy-circle --set.epochs many": "--set.epochs many: expected a whole number",
    "experiment toy-circle --data docstrings": "toy-circle has no setting data",
    "experiment migration": "migration needs --data",
    "experiment sampling --set.step 3": "sampling has no setting step; it takes cells_of, data",
    "experiment sampling --train.batch 3": "a training has no setting 'batch'; did you mean",
    "experiment sampling --set.seeds 1,1": "seeds must be different whole numbers",
    "train --data faq.csv --hard-negatives 9 --output x": "cannot take 9 negatives a query from 1",
    "train --data faq.csv --batch-size 9 --output x": "a batch of 9 needs as many training pairs",
    "train --data faq.csv --given-negatives 2 --output x": "no negatives of its own to take 2",
    "train --data asked.csv --strict --output x": "asked.csv:3: the row is blank",
    "compare --data faq.csv --hard-negatives 9 --output x": "cannot take 9 negatives a query",
    "doctor --data faq.csv --batch-size 9": "a batch of 9 needs as many training pairs",
    "mine --data faq.csv --hard-negatives 9 --output x": "cannot mine 9 negatives from 1 targets",
    "mine --data faq.csv --relative-margin 5 --output x": "--relative-margin must be below 1",
    "rag --data asked.csv --corpus texts.txt --k 9 --output x": "the corpus's 1 targets, got 9",
    "traim --data faq.csv --output x": "did you mean train?",
    "verify nowhere": "nowhere: there is no such file or folder",
}
PROGRAM = """
import shlex, sys
from unstale.cli.main import main
for line in sys.stdin.read().splitlines():
    print(main(shlex.split(line)), sorted({"torch", "transformers", "datasets"} & set(sys.modules)))
"""
EARLY = """
import shlex, sys
from unstale.cli.main import main

class Late(Exception):
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise self  # nothing waits for what comes after

sys.meta_path.insert(0, Late())
for line in sys.stdin.read().splitlines():
    try:
        print(main(shlex.split(line)), sorted({"transformers", "datasets"} & set(sys.modules)))
    except Late:
        print("late:", line)
"""


def test_errors_come_before_torch(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("query,positive\na,b\n")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").touch()
    (tmp_path / "asked.csv").write_text("question,answer\na,b\n\n")
    (tmp_path / "texts.txt").write_text("A text.")
    (tmp_path / "sheet.xlsx").touch()
    (tmp_path / "other.csv").write_text("foo,bar\na,b\n")
    (tmp_path / "other.jsonl").write_text('{"foo": "a"}\n')
    (tmp_path / "old.npy").touch()
    (tmp_path / "empty.csv").touch()
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "config.json").write_text('{"n_layers": 2}')  # as DistilBERT has it
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text(
        '{"model_type": "bert", "architectures": ["BertModel"]}'
    )
    (tmp_path / "beir" / "qrels").mkdir(parents=True)
    (tmp_path / "beir" / "corpus.jsonl").touch()
    for run, data in (("run", "docstrings"), ("moved", "/was/here.csv")):
        (tmp_path / run / "model").mkdir(parents=True)
        (tmp_path / run / "config.yaml").write_text(f"# unstale train\ndata: {data}\n")
    environment = os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9"}  # whoever asks it, waits
    done = subprocess.run(
        [sys.executable, "-c", EARLY], input="\n".join(WRONG), cwd=tmp_path, check=True,
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["2 []"] * len(WRONG)
    said = [line for line in done.stderr.splitlines() if line.startswith("unstale")]
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


def test_the_size_of_what_is_no_file_is_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "small.csv").write_text("question,answer\n")
    (tmp_path / ".#small.csv").symlink_to("an editor's lock")
    assert is_small(tmp_path)
    assert is_small(tmp_path / "small.csv")
    assert not is_small(Path("docstrings"))  # a built-in data set


def test_a_packaged_model_is_found_by_its_name() -> None:
    folder = packaged_model("all-MiniLM-L6-v2")
    assert folder is not None
    assert (folder / "modules.json").is_file()
    assert packaged_model("sentence-transformers/all-MiniLM-L6-v2") == folder
    assert packaged_model("other/all-MiniLM-L6-v2") is None


@pytest.mark.skipif(torch.accelerator.is_available(), reason="it has what is asked for")
def test_a_missing_device_is_found_at_once(tmp_path: Path) -> None:
    alone = not version("torch").endswith("+cpu")  # whose name says that it has no such device
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input="plan --device cuda\ntrain --device mps --output x",
        cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["2 ['torch']" if alone else "2 []"] * 2
    found = "torch finds only the CPU" if alone else "the installed torch is the build for CPUs"
    assert f"--device cuda: {found}" in done.stderr


def test_help_comes_before_torch() -> None:
    program = """
import sys
from contextlib import suppress
from unstale.cli.main import main
for name in ("train", "compare", "rag"):
    with suppress(SystemExit):
        main([name, "--help"])
print(sorted({"torch", "transformers", "datasets"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.endswith("[]\n")
    assert "two-round: the cached embeddings, re-embedded halfway" in " ".join(done.stdout.split())
    assert "frozen: the retriever is not trained." in " ".join(done.stdout.split())
