"""Fine-tune an embedding model with in-batch negatives: sentence-transformers as it is.

    python examples/before.py MODEL ROWS.jsonl OUTPUT

ROWS.jsonl has a `query` and a `positive` on each line.
"""

import sys

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

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
loss = MultipleNegativesRankingLoss(model)
trainer = SentenceTransformerTrainer(model, args, train_dataset, loss=loss)
trainer.train()
model.save_pretrained(f"{output}/model")
