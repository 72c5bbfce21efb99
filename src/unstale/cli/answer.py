"""`unstale answer`."""

import json
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unstale.buffer.embed import open_or_embed
from unstale.cli.options_rag import Answer
from unstale.cli.search import INDEX, read_config, shorten
from unstale.encoders.embed import embed_queries
from unstale.encoders.load import load_encoder
from unstale.encoders.tokenise import target_tokens
from unstale.errors import InputError
from unstale.rag.answering import answer
from unstale.rag.job import ANSWERING
from unstale.rag.load import load_questions
from unstale.rag.reader import load_reader
from unstale.search.exact import Exact


def run(chosen: Answer) -> None:
    """Retrieve for one question with a run's retriever, and answer with its reader."""
    folder = Path(chosen.run)
    if not chosen.question.strip():
        raise InputError("the question is empty")
    if not (folder / ANSWERING).is_file():
        raise InputError(f"{folder} is not a finished run of `unstale rag` (no {ANSWERING})")
    config = read_config(folder)
    how = json.loads((folder / ANSWERING).read_text("utf-8"))
    trusted = bool(config.get("trust_remote_code"))
    device = config.get("device")
    model = load_encoder(str(folder / "model"), device=device, trust_remote_code=trusted)
    reader = load_reader(
        str(folder / "reader"),
        max_length=how["max_length"],
        answer_length=how["answer_length"],
        device=model.device,
        trust_remote_code=trusted,
    ).eval()
    if not how["k"]:
        print(answer(reader, [chosen.question], None)[0])
        return
    dataset = load_questions(config["data"]).dataset
    tokens = target_tokens(model, dataset)
    buffer, _ = open_or_embed(model, dataset.targets, tokens, None, folder / INDEX)
    best = Exact(buffer).top_k(embed_queries(model, [chosen.question]), how["k"])
    log_p = torch.log_softmax(how["scale"] * best.scores, dim=1)
    rows = best.rows[0].numpy()
    texts = dataset.targets.take(rows)
    said = answer(reader, [chosen.question], [texts], log_p, fusion=how["fusion"])[0]
    table = Table(box=box.SIMPLE_HEAD, show_lines=True)
    table.add_column("P(y|x)", justify="right")
    table.add_column("id")
    table.add_column("target", ratio=1)
    for p, key, text in zip(
        log_p[0].exp().tolist(), dataset.target_ids.take(rows), texts, strict=True
    ):
        table.add_row(f"{p:.3f}", Text(key), Text(shorten(text, chosen.width)))
    console = Console()
    console.print(Text(said or "(no answer)", style="bold"))
    console.print(table)
