"""Installed packages made up for a test, and what was built of them, read back."""

import importlib
import json

FILLERS = 60  # modules enough that every split has some


class Site:
    """A folder of installed packages, made up for a test."""

    def __init__(self, folder):
        self.folder = folder

    def install(self, package, files, version="1.0", fillers=FILLERS):
        self.write(package, "__init__.py", "raise RuntimeError('a package must not be imported')")
        for number in range(fillers):
            source = (
                f'def f():\n    """Fill up with {package} number {number}."""\n    {number}+x\n'
            )
            self.write(package, f"filler{number}.py", source)
        for path, source in files.items():
            self.write(package, path, source)
        self.set_version(package, version)

    def write(self, package, path, source):
        file = self.folder / package / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(source if isinstance(source, bytes) else source.encode())

    def set_version(self, package, version, distribution=None):
        metadata = self.folder / f"{distribution or package}.dist-info"
        metadata.mkdir(exist_ok=True)
        name = distribution or package
        (metadata / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        (metadata / "top_level.txt").write_text(f"{package}\n")
        importlib.invalidate_caches()


class Built:
    """A built set, read back by its format alone."""

    def __init__(self, folder):
        self.about = json.loads((folder / "about.json").read_text())
        self.targets = {row["_id"]: row for row in json_lines(folder / "corpus.jsonl")}
        self.queries = {row["_id"]: row["text"] for row in json_lines(folder / "queries.jsonl")}
        self.pairs = []  # (split, title, query, text)
        for split in ("train", "dev", "test"):
            header, *rows = (folder / "qrels" / f"{split}.tsv").read_text().splitlines()
            assert header == "query-id\tcorpus-id\tscore"
            for row in rows:
                query, target, score = row.split("\t")
                assert score == "1"
                target = self.targets[target]
                self.pairs.append((split, target["title"], self.queries[query], target["text"]))

    def of(self, module):
        """Return `title: (query, text)` of a module's pairs."""
        return {t: (q, text) for _, t, q, text in self.pairs if t.startswith(f"{module}.")}


def json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def files_of(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
