"""Fine-tune an embedding model with fresh hard negatives: before.py with three lines changed.

    python examples/after.py MODEL ROWS.jsonl OUTPUT

ROWS.jsonl has a `query` and a `positive` on each line.
"""

import sys

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers import SentenceTransformerTrainingArguments as Arguments

from unstale import FreshNegatives  # 1

name, rows, output = sys.argv[1:]
model = SentenceTransformer(name)
train_dataset = Dataset.from_json(rows)
args = Arguments(
    output_dir=output,
    per_device_train_batch_size=16,
    learning_rate=2e-5,
    num_train_epochs=1,
    warmup_steps=0.1,
)
fresh = FreshNegatives(model, train_dataset)  # 2
trainer = fresh.attach(SentenceTransformerTrainer(model, args, fresh.dataset, loss=fresh.loss))  # 3
trainer.train()
model.save_pretrained(f"{output}/model")
