"""`unstale rag`."""

from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from transformers import TrainingArguments

from unstale.cli.encoder import open_encoder
from unstale.cli.options_rag import Rag
from unstale.cli.output import run_folder
from unstale.cli.train import check_trainer, warn_of_refreshes
from unstale.distributed import first_alone, rank, start
from unstale.rag.job import train_rag
from unstale.rag.load import load_questions
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader, load_reader
from unstale.rag.settings import check_rag_settings, find_rag_strategy
from unstale.rag.tiny_reader import tiny_reader
from unstale.report.table import print_runs
from unstale.results import RESULTS, RunResult
from unstale.training.settings import hidden_widths


def run(chosen: Rag) -> None:
    """Check everything, train retriever and reader, and write the results."""
    start(chosen.device)
    needs = (chosen.data, chosen.retriever, chosen.reader, chosen.buffer)
    with run_folder("rag", chosen, needs=needs) as folder:
        if folder.finished:
            return
        find_rag_strategy(chosen.strategy)
        with first_alone():
            questions = load_questions(chosen.data, progress=rank() == 0)
        retriever = open_encoder(chosen, dropout=chosen.dropout)
        reader = open_reader(chosen, questions, retriever)
        chosen = settle(chosen, retriever)
        settings = check_rag_flags(questions, retriever, reader, chosen)
        warn_of_refreshes(chosen, [chosen.strategy])
        output = folder.begin(chosen)
        done = train_rag(questions, retriever, reader, output, **settings)
        result = RunResult.from_json(done, "the run")
        folder.finish(questions.counts, [result])
    if rank() > 0:
        return
    title = f"{questions.dataset.name}, {chosen.eval_split} split, in percent"
    print_runs([result], title=title)
    print(f"retriever: {output / 'model'}\nreader:    {output / 'reader'}")
    print(f"results:   {output / RESULTS}\nask it:    unstale answer 'QUESTION' --run {output}")


def settle(chosen: Rag, retriever: SentenceTransformer) -> Rag:
    """Choose what depends on the device: how many targets to retrieve."""
    k = 8 if retriever.device.type == "cpu" else 32
    return replace(chosen, k=k) if chosen.k is None else chosen


def open_reader(chosen: Rag, questions: QuestionSet, retriever: SentenceTransformer) -> Reader:
    """Load the reader that the flags describe, on the retriever's device."""
    limits = {"max_length": chosen.reader_max_length, "answer_length": chosen.answer_length}
    if chosen.reader == "tiny":
        texts = questions.texts()
        return tiny_reader(texts, seed=chosen.seed, device=retriever.device, **limits)
    return load_reader(
        chosen.reader,
        dropout=chosen.dropout,
        device=retriever.device,
        trust_remote_code=chosen.trust_remote_code,
        **limits,
    )


def check_rag_flags(
    questions: QuestionSet, retriever: SentenceTransformer, reader: Reader, chosen: Rag
) -> dict[str, Any]:
    """Refuse flags that cannot work, or return the arguments of `train_rag`."""
    check_trainer(chosen.trainer, TrainingArguments)
    settings = rag_settings(chosen)
    checked = signature(check_rag_settings).parameters.keys() & settings.keys()
    told = {name: settings[name] for name in checked}
    rates = tuple(settings[name] for name in ("learning_rate", "reader_lr", "corrector_lr"))
    check_rag_settings(questions, retriever, reader, rates=rates, **told)
    return settings


def rag_settings(chosen: Rag) -> dict[str, Any]:
    """Return the arguments of `train_rag`; flags have their names."""
    rate = chosen.reader_lr
    if rate is None:
        rate = 3e-3 if chosen.reader == "tiny" else 1e-4
    changes: dict[str, Any] = {
        "corrector_hidden": hidden_widths(chosen.corrector_hidden),
        "buffer": Path(chosen.buffer) if chosen.buffer else None,
        "reader_lr": rate,
    }
    names = signature(train_rag).parameters.keys() & {f.name for f in fields(chosen)}
    own = names - {"retriever", "reader", "output"}
    return {name: getattr(chosen, name) for name in own} | changes
