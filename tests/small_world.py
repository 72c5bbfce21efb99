"""A few texts and a model of 8 dimensions, for commands that run hundreds of times."""

from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tests.conftest import FACTS, TOPICS, write_lines
from tokenizers import Tokenizer, models, pre_tokenizers

VARIANTS = ["a", "query", "target", "train", "dev", "test"]


def write_data(folder: Path, variant: str, count: int = 16) -> None:
    """Write some texts; a variant differs from "a" in one word or one judgement."""
    pairs = [(topic, fact) for fact in FACTS for topic in TOPICS][:count]
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
