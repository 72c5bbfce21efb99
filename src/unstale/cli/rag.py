"""`unstale rag`."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from unstale.cli.options import RagFlags
from unstale.cli.read import open_encoder
from unstale.cli.train import Start, check_each, run_training
from unstale.declare import taken_from
from unstale.distributed import first_alone, rank
from unstale.encoders.load import hash_weights
from unstale.miners import strategies
from unstale.rag.check import check_questions, check_rag, find_rag_strategy, rag_strategies
from unstale.rag.evaluator import Starts
from unstale.rag.job import train_rag_checked
from unstale.rag.load import load_questions
from unstale.rag.load_reader import load_reader
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader
from unstale.rag.settings import RagSettings
from unstale.rag.tiny_reader import tiny_reader
from unstale.results import RESULTS, RunResult
from unstale.shown import say
from unstale.training.arguments import check_arguments
from unstale.training.identity import Identity, made_of
from unstale.training.settings import Checked

_LOG = logging.getLogger(__name__)


def run(chosen: RagFlags) -> None:
    """Check everything, train retriever and reader, and write the results."""
    output = run_training("rag", chosen, prepare_rag)
    if not output or rank() > 0:
        return
    say(f"retriever: {output / 'model'}\nreader:    {output / 'reader'}")
    say(f"results:   {output / RESULTS}\nask it:    unstale answer 'QUESTION' --run {output}")


def prepare_rag(chosen: RagFlags, names: Sequence[str]) -> Start:
    """Check everything for Algorithm 2, with each of some strategies."""
    check_arguments(chosen.trainer)
    for name in names:
        find_rag_strategy(name)
    with first_alone():
        first = rank() == 0
        questions = load_questions(
            chosen.data, corpus=chosen.corpus, strict=chosen.strict, progress=first
        )
    questions = questions.hold_out(chosen.eval_split, chosen.holdout, progress=first)
    settings = taken_from(RagSettings, chosen)
    check_questions(settings, questions)

    def load(seed: int) -> tuple[SentenceTransformer, Reader]:
        tf32 = chosen.trainer.get("tf32")
        retriever = open_encoder(chosen, dropout=chosen.dropout, tf32=tf32)
        return retriever, open_reader(replace(chosen, seed=seed), questions, retriever)

    def train(own: Checked[Any], models: tuple[Any, ...], folder: Path, resume: bool) -> RunResult:
        return train_rag_checked(
            questions, models[0], models[1], folder, own, resume=resume, starts=starts
        )

    if first and chosen.reader == "tiny" and chosen.data != "facts":
        rule = "it learns to read from your questions alone, and answers real text badly"
        _LOG.warning("--reader tiny is an untrained T5: %s; name a pretrained reader", rule)
    starts: Starts = {}
    models = load(chosen.seed)
    checked = check_each(
        names,
        strategies() | rag_strategies(),
        settings,
        lambda s, first: check_rag(s, questions, *models, first),
    )
    weights = hash_weights(models[0].state_dict())
    # The weights of the tiny reader are drawn anew for each seed.
    more = {} if chosen.reader == "tiny" else {"reader": models[1].weights}

    def identity(own: Checked[Any]) -> Identity:
        return made_of(questions.dataset, weights, own.settings, **more)

    return Start(questions.dataset, questions.counts, models, checked, load, identity, train)


def open_reader(chosen: RagFlags, questions: QuestionSet, retriever: SentenceTransformer) -> Reader:
    """Load the reader that the flags describe, on the retriever's device."""
    limits = {"max_length": chosen.reader_max_length, "answer_length": chosen.answer_length}
    if chosen.reader == "tiny":
        texts = questions.texts()
        return tiny_reader(texts, seed=chosen.seed, device=retriever.device, **limits)
    return load_reader(
        chosen.reader,
        dropout=chosen.dropout,
        lora=chosen.reader_lora,
        device=retriever.device,
        trust_remote_code=chosen.trust_remote_code,
        **limits,
    )
