"""Training examples as FlagEmbedding writes them."""

from unstale.data import lines
from unstale.data.formats.format import TWINS
from unstale.data.formats.toolkits import Toolkit
from unstale.data.gather import Example, Target
from unstale.data.lines import Record


def _parse(record: Record, where: str) -> Example:
    positives, negatives = (
        [Target(None, "", text) for text in lines.strings(record.get(key), key, where)]
        for key in ("pos", "neg")
    )
    return Example(None, lines.string(record, "query", where), positives, negatives)


def _render(example: Example) -> Record:
    positives = [t.joined for t in example.positives]
    return {"query": example.query, "pos": positives, "neg": [t.joined for t in example.negatives]}


FORMAT = Toolkit(
    "flagembedding",
    "JSON lines with query and pos, alone or in a folder with candidate_pool.jsonl",
    ("ids", "titles", "answers", "grades", TWINS),
    keys=[{"query", "pos"}],
    parse=_parse,
    render=_render,
    corpus="candidate_pool.jsonl",
    passage=lambda target: {"text": target.joined},
    id_keys=(),
    by_text=True,
).format
