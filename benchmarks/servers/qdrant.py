"""Qdrant's storage engine behind the part of its HTTP interface that `unstale correct` calls.

    pip install qdrant-edge-py orjson
    python benchmarks/servers/qdrant.py FOLDER PORT

It stands in for a Qdrant server where none can be installed. Qdrant's own engine keeps the points:
one shard to a collection, with its write-ahead log and its segments on disk. The HTTP server is
Python's; vectors travel as JSON, as they do from Qdrant's. It lacks what a server adds: several
shards, background indexing, aliases and access control.
"""

import shutil
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import urlparse

import orjson
import qdrant_edge as edge

DISTANCES = {
    "Cosine": edge.Distance.Cosine,
    "Dot": edge.Distance.Dot,
    "Euclid": edge.Distance.Euclid,
}


class Collections:
    """One shard of the engine to each collection, and the width and distance it was made with."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, Lock()
        self.shards: dict[str, tuple[edge.EdgeShard, dict]] = {}

    def create(self, name: str, wanted: dict) -> bool:
        kind = wanted["vectors"]
        size = edge.EdgeVectorParams(kind["size"], DISTANCES[kind["distance"]])
        (self.folder / name).mkdir()
        shard = edge.EdgeShard.create(str(self.folder / name), edge.EdgeConfig(vectors=size))
        self.shards[name] = shard, {"size": kind["size"], "distance": kind["distance"]}
        return True

    def delete(self, name: str) -> bool:
        self.shards.pop(name)[0].close()
        shutil.rmtree(self.folder / name)
        return True

    def about(self, name: str) -> dict:
        kind = self.shards[name][1]
        params = {"vectors": kind, "shard_number": 1, "replication_factor": 1}
        params |= {"write_consistency_factor": 1, "on_disk_payload": True}
        hnsw = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000}
        optimizers = {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000}
        optimizers |= {"default_segment_number": 0, "flush_interval_sec": 5}
        config = {"params": params, "hnsw_config": hnsw, "optimizer_config": optimizers}
        config["wal_config"] = {"wal_capacity_mb": 32, "wal_segments_ahead": 0}
        return {"status": "green", "optimizer_status": "ok", "segments_count": 1,
                "config": config, "payload_schema": {}}  # fmt: skip

    def scroll(self, name: str, asked: dict) -> dict:
        request = edge.ScrollRequest(
            offset=asked.get("offset"), limit=asked["limit"],
            with_payload=asked.get("with_payload"), with_vector=asked.get("with_vector"),
        )  # fmt: skip
        found, following = self.shards[name][0].scroll(request)
        return {"points": [told(r) for r in found], "next_page_offset": following}

    def retrieve(self, name: str, asked: dict) -> list[dict]:
        shard = self.shards[name][0]
        found = shard.retrieve(asked["ids"], asked.get("with_payload"), asked.get("with_vector"))
        return [told(record) for record in found]

    def upsert(self, name: str, asked: dict) -> dict:
        points = [edge.Point(p["id"], p["vector"], p.get("payload")) for p in asked["points"]]
        self.shards[name][0].update(edge.UpdateOperation.upsert_points(points))
        return {"operation_id": 0, "status": "completed"}

    def count(self, name: str, asked: dict) -> dict:
        return {"count": self.shards[name][0].count(edge.CountRequest(exact=True))}

    def answer(self, method: str, path: str, asked: dict) -> object:
        words = path.strip("/").split("/")
        if path == "/aliases":
            return {"aliases": []}
        if path == "/collections":
            return {"collections": [{"name": name} for name in self.shards]}
        name, rest = words[1], "/".join(words[2:])
        if rest == "exists":
            return {"exists": name in self.shards}
        ways = {
            ("PUT", ""): lambda: self.create(name, asked),
            ("DELETE", ""): lambda: self.delete(name),
            ("GET", ""): lambda: self.about(name),
            ("PUT", "points"): lambda: self.upsert(name, asked),
            ("POST", "points"): lambda: self.retrieve(name, asked),
            ("POST", "points/scroll"): lambda: self.scroll(name, asked),
            ("POST", "points/count"): lambda: self.count(name, asked),
        }
        return ways[method, rest]()


def told(record: edge.Record) -> dict:
    return {"id": record.id, "payload": record.payload, "vector": record.vector}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    collections: Collections

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length)
        if len(sent) < length:  # whoever asked was killed
            return
        asked = orjson.loads(sent) if sent else {}
        path = urlparse(self.path).path
        with self.collections.lock:
            if path == "/":
                found = {"title": "qdrant-edge", "version": "1.19.0"}
            else:
                result = self.collections.answer(self.command, path, asked)
                found = {"result": result, "status": "ok", "time": 0.0}
            body = orjson.dumps(found)
        with suppress(ConnectionError):  # whoever asked was killed
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - as http.server names them

    def handle_one_request(self) -> None:
        with suppress(ConnectionError):
            return super().handle_one_request()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


def main() -> None:
    Handler.collections = Collections(Path(sys.argv[1]))
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()


if __name__ == "__main__":
    main()
