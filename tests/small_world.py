"""A few texts and a model of 8 dimensions, for commands that run hundreds of times."""

from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tests.conftest import FACTS, TOPICS, write_lines
from tokenizers import Tokenizer, models, pre_tokenizers

PAIRS = [(topic, fact) for fact in FACTS for topic in TOPICS]
VARIANTS = ["a", "query", "target", "train", "dev", "test"]


def write_data(folder: Path, variant: str, count: int = 16) -> None:
    """Write some texts; a variant differs from "a" in one word or one judgement."""
    pairs = PAIRS[:count]
    texts = [f"{topic} {fact}" for topic, fact in pairs]
    asked = list(texts)
    if variant == "query":
        asked[1] = "winter"
    if variant == "target":
        texts[2] = "winter"
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, lines in (("corpus", texts), ("queries", asked)):
        records = [
            {"_id": f"{name[0]}{i}", "text": text, "metadata": {"answers": [pairs[i][1]]}}
            for i, text in enumerate(lines)
        ]
        write_lines(folder / f"{name}.jsonl", records)
    for split, rows in {"train": range(10), "dev": range(10, 13), "test": range(13, 16)}.items():
        grades = {i: 1 + (variant == split and i == rows[0]) for i in rows}
        judged = "".join(f"q{i}\tc{i}\t{grade}\n" for i, grade in grades.items())
        (folder / "qrels" / f"{split}.tsv").write_text(judged)


def write_model(folder: Path) -> None:
    words = [*TOPICS, *FACTS, "[UNK]"]
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    start = torch.randn(len(words), 8, generator=torch.Generator().manual_seed(0))
    static = StaticEmbedding(tokenizer, embedding_weights=start)
    SentenceTransformer(modules=[static, Normalize()], device="cpu").save_pretrained(str(folder))


def write_vectors(path: Path, model: Path, count: int) -> None:
    """Write what an older model made of the first texts: the vectors of this one, turned."""
    encoder = SentenceTransformer(str(model), device="cpu")
    vectors = encoder.encode([" ".join(pair) for pair in PAIRS[:count]])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(vectors.shape[1],) * 2))[0]
    np.save(path, (vectors @ turn).astype(np.float32))
