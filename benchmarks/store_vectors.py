"""Correct the vectors of a database into a shadow: speed, memory, and what a kill changes.

    python benchmarks/store_vectors.py --kind lancedb --rows 1000000 --kills 10

A worker process corrects all vectors once undisturbed, and once killed with -9 at random moments
and resumed. The two shadows must have the same ids and vectors, byte by byte. The vectors are
synthetic, 384 numbers wide, and the map is fitted to 2,000 pairs.
"""

import argparse
import atexit
import hashlib
import json
import random
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from unstale.corrector.closed_form import least_squares
from unstale.corrector.projected import ProjectedCorrector
from unstale.migration.index import Known, write_index
from unstale.migration.vectors import open_vectors

DIM, PIECE, SAMPLE = 384, 10_000, 2_000


def piece(start: int, count: int) -> np.ndarray:
    """Make unit vectors of consecutive rows, the same at every call."""
    vectors = np.random.default_rng(start).standard_normal((count, DIM), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def pieces(rows: int):
    for start in range(0, rows, PIECE):
        yield start, piece(start, min(PIECE, rows - start))


def fill_lancedb(place: Path, rows: int) -> str:
    import lancedb

    field = pa.field("vector", pa.list_(pa.float32(), DIM))
    schema = pa.schema([("id", pa.string()), ("text", pa.string()), field])
    table = lancedb.connect(place).create_table("docs", schema=schema)
    for start, vectors in pieces(rows):
        ids = [f"d{row}" for row in range(start, start + len(vectors))]
        flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIM)
        table.add(pa.table({"id": ids, "text": [f"text of {i}" for i in ids], "vector": flat}))
    return f"lancedb:{place}#docs"


def fill_qdrant(place: Path, rows: int) -> str:
    from qdrant_client import QdrantClient

    client = QdrantClient(path=str(place))
    fill_collection(client, rows)
    client.close()
    return f"qdrant:{place}#docs?id=doc"


def fill_qdrant_server(place: Path, rows: int) -> str:
    """Start the server, and fill it; it outlives every worker that is killed."""
    from qdrant_client import QdrantClient

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).parent / "servers" / "qdrant.py"
    server = subprocess.Popen([sys.executable, str(script), str(place), str(port)])
    atexit.register(server.kill)
    for _ in range(600):
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    fill_collection(QdrantClient(url=f"http://127.0.0.1:{port}", timeout=600), rows)
    return f"qdrant:http://127.0.0.1:{port}#docs?id=doc"


def fill_collection(client, rows: int) -> None:
    from qdrant_client import models

    size = models.VectorParams(size=DIM, distance=models.Distance.COSINE)
    client.create_collection("docs", vectors_config=size)
    for start, vectors in pieces(rows):
        points = [
            models.PointStruct(id=start + n, vector=v.tolist(), payload={"doc": f"d{start + n}"})
            for n, v in enumerate(vectors)
        ]
        client.upsert("docs", points)


def fill_chroma(place: Path, rows: int) -> str:
    import chromadb

    quiet = chromadb.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(place), settings=quiet)
    docs = client.create_collection(
        "docs", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
    )
    for start, vectors in pieces(rows):
        for first in range(0, len(vectors), 5_000):
            ids = [f"d{start + first + n}" for n in range(len(vectors[first : first + 5_000]))]
            docs.add(ids=ids, embeddings=vectors[first : first + 5_000], documents=ids)
    return f"chroma:{place}#docs"


def fill_sqlite(place: Path, rows: int) -> str:
    try:
        import pysqlite3 as sqlite3
    except ImportError:
        import sqlite3
    import sqlite_vec

    base = sqlite3.connect(place / "docs.db", isolation_level=None)
    base.enable_load_extension(True)
    sqlite_vec.load(base)
    width = f"vector float[{DIM}] distance_metric=cosine"
    base.execute(f"CREATE VIRTUAL TABLE docs USING vec0(id integer primary key, {width})")
    for start, vectors in pieces(rows):
        base.execute("BEGIN")
        some = [(start + n, v.tobytes()) for n, v in enumerate(vectors)]
        base.executemany("INSERT INTO docs(id, vector) VALUES (?, ?)", some)
        base.execute("COMMIT")
    base.close()
    return f"sqlite-vec:{place / 'docs.db'}#docs"


FILL = {
    "lancedb": fill_lancedb,
    "qdrant": fill_qdrant,
    "qdrant-server": fill_qdrant_server,
    "chroma": fill_chroma,
    "sqlite-vec": fill_sqlite,
}


def work(address: str, output: Path) -> None:
    """Correct everything, or what is left; this is the process that is killed."""
    random_turn = np.random.default_rng(1).standard_normal((DIM, DIM), dtype=np.float32)
    turn = torch.linalg.qr(torch.from_numpy(random_turn)).Q
    stale = torch.from_numpy(piece(0, SAMPLE))
    noise = torch.from_numpy(piece(1, SAMPLE))
    fresh = torch.nn.functional.normalize(stale @ turn + 0.3 * noise, dim=1)
    corrector = ProjectedCorrector(least_squares(stale, fresh), unit=True).eval()
    began = time.perf_counter()
    source = open_vectors(address)
    opened = time.perf_counter() - began
    print("writing", flush=True)
    used = time.process_time()
    _, seconds = write_index(source, corrector, Known(torch.arange(SAMPLE), fresh), output, {})
    used = time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"open": opened, "seconds": seconds, "used": used, "GiB": peak}))


def start(address: str, output: Path) -> subprocess.Popen:
    command = [sys.executable, __file__, "--work", address, "--output", str(output)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if child.stdout.readline() != "writing\n":
        sys.exit("the worker failed")
    return child


def shadow_digest(address: str) -> str:
    """Hash what the shadow holds, and delete it."""
    source = open_vectors(address)
    place, field = address.partition("#")[0], "?id=doc" if source.format == "qdrant" else ""
    if source.format == "qdrant":
        source.store.client.close()
    shadow, found = open_vectors(f"{place}#{source.store.shadow}{field}"), hashlib.sha256()
    found.update(shadow.ids.digest.encode())
    for _, vectors in shadow.chunks():
        found.update(vectors.tobytes())
    if source.format == "qdrant":
        shadow.store.client.close()
        source = open_vectors(address)
    source.store.discard()
    if source.format == "qdrant":
        source.store.client.close()
    return found.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", choices=FILL, default="lancedb")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None, help="where to write; a temporary one")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work:
        work(chosen.work, chosen.output)
        return
    folder = Path(tempfile.mkdtemp(dir=chosen.folder))
    try:
        measure(chosen, folder)
    finally:
        shutil.rmtree(folder)


def measure(chosen: argparse.Namespace, folder: Path) -> None:
    (folder / "base").mkdir()
    began = time.perf_counter()
    address = FILL[chosen.kind](folder / "base", chosen.rows)
    print(f"{chosen.kind}, {chosen.rows:,} x {DIM}: filled in {time.perf_counter() - began:.0f} s")
    child = start(address, folder / "whole")
    about = json.loads(child.communicate()[0])
    speed, cpu = chosen.rows / about["seconds"], chosen.rows / about["used"]
    print(f"opened in {about['open']:.1f} s, written in {about['seconds']:.1f} s")
    print(f"{speed:,.0f} vectors a second, {cpu:,.0f} a processor second", flush=True)
    print(f"peak memory {about['GiB']:.2f} GiB", flush=True)
    whole = shadow_digest(address)
    kills, chance = 0, random.Random(0)
    while kills < chosen.kills:
        child = start(address, folder / "killed")
        time.sleep(chance.uniform(0.2, 1.5) * about["seconds"] / (chosen.kills + 1))
        if child.poll() is not None:
            break
        child.kill()
        child.wait()
        kills += 1
    child = start(address, folder / "killed")
    last = json.loads(child.communicate()[0])
    same = shadow_digest(address) == whole
    print(f"killed {kills} times, the last part took {last['seconds']:.1f} s; equal bytes: {same}")


if __name__ == "__main__":
    main()
