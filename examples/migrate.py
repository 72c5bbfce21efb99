"""Bring an index up to date with a new encoder from Python, as `unstale correct` does.

    python examples/migrate.py VECTORS DATA MODEL COUNT OUTPUT

COUNT targets are embedded anew, and the queries of the test split judge.
"""

import sys

from unstale import MigrateSettings, load_dataset, load_encoder, migrate

vectors, data, name, count, output = sys.argv[1:]
settings = MigrateSettings(count=int(count))
done = migrate(vectors, load_dataset(data), load_encoder(name), output, settings)
for measure, interval in done.validation.items():
    print(f"{measure}: {interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})")
print(done.results["verdict"]["text"])
print(done.path)
