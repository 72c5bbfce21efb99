"""Bring an index up to date with a new encoder from Python, as `unstale correct` does.

    python examples/migrate.py VECTORS DATA MODEL COUNT OUTPUT

COUNT targets are embedded anew, and the queries of the test split judge.
"""

import sys
from pathlib import Path

from unstale.buffer.fingerprint import fingerprint
from unstale.data.load import load_dataset
from unstale.encoders.embed import embed_queries
from unstale.encoders.load import load_encoder
from unstale.migrate.embed import Stages
from unstale.migrate.index import write_index
from unstale.migrate.job import Asked, draw_sample, learn_and_validate
from unstale.migrate.vectors import check_texts, check_values, open_vectors

vectors, data, name, count, output = sys.argv[1:]
old, dataset, model = open_vectors(Path(vectors)), load_dataset(data), load_encoder(name)
check_texts(old, dataset)
check_values(old)

# Queries judge the new index; their vectors must be of the new encoder.
judged = dataset.split("test")
queries = embed_queries(model, dataset.queries.take(judged.query_rows))
asked = Asked(guide=None, check=queries, qrels=judged, rows=judged.query_rows)

# What an interrupted run has embedded is not embedded again.
stages = Stages(model, dataset, Path(output, "embedded"))
sample = draw_sample(old, lambda: int(count), stages)
learned, found, _ = learn_and_validate(old, sample, asked, method="auto", hidden=1536)
for measure, interval in found.items():
    print(f"{measure}: {interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})")
made_by = fingerprint(model, dataset.targets)
path, _ = write_index(old, learned, sample.known(), Path(output), made_by)
print(path)
