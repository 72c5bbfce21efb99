"""Train, measure and search from a CSV: open it as a notebook, or run it as a script.

    python examples/train.py ROWS.csv MODEL OUTPUT

ROWS.csv has a question and an answer in each row. MODEL is `tiny`, `all-MiniLM-L6-v2`, a folder or
a name on the hub. Editors such as VS Code and PyCharm run each `# %%` as a cell.
"""

# %% Read the file. What was skipped is printed, and kept in `dataset.skipped`.
import sys

from unstale import Index, evaluate, load_dataset, load_encoder, train

rows, name, output = sys.argv[1:]
dataset = load_dataset(rows)
print(dataset.counts)
print(dataset.queries[0], "->", dataset.targets[int(dataset.qrels["train"].pairs[0, 1])][:80])

# %% Measure the model as it is, on a tenth of the queries that no training will see.
model = load_encoder(name)
before = evaluate(dataset, model)
print(f"before: recall@10 {before['recall@10']:.3f}")

# %% Train. The length follows from the size of the data; `epochs=3` or `steps=500` set it.
result = train(dataset, model, output, progress=False)
print(f"after {result.epochs:.1f} epochs: recall@10 {result.metrics['recall@10']:.3f}")
print("loss:", [round(point["loss"], 3) for point in result.losses or []])

# %% Search with the trained model. `unstale search`, `report` and `serve` open the folder, too.
index = Index.of_run(output)
for hit in index.search(dataset.queries[0], k=3):
    print(f"{hit.score:.3f}  {hit.text[:80]}")
