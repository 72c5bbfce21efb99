"""`unstale rag`."""

from sentence_transformers import SentenceTransformer
from transformers import TrainingArguments

from unstale.cli.encoder import open_encoder
from unstale.cli.options import RagFlags
from unstale.cli.output import run_folder
from unstale.cli.train import check_trainer, warn
from unstale.declare import taken_from
from unstale.distributed import first_alone, rank, start
from unstale.rag.check import check_rag, find_rag_strategy
from unstale.rag.job import train_rag_checked
from unstale.rag.load import load_questions
from unstale.rag.questions import QuestionSet
from unstale.rag.reader import Reader, load_reader
from unstale.rag.settings import RagSettings
from unstale.rag.tiny_reader import tiny_reader
from unstale.report.table import print_runs
from unstale.results import RESULTS


def run(chosen: RagFlags) -> None:
    """Check everything, train retriever and reader, and write the results."""
    start(chosen.device)
    check_trainer(chosen.trainer, TrainingArguments)
    with run_folder("rag", chosen) as folder:
        if folder.finished:
            return
        strategy, settings = find_rag_strategy(chosen.strategy), taken_from(RagSettings, chosen)
        with first_alone():
            questions = load_questions(chosen.data, progress=rank() == 0)
        retriever = open_encoder(chosen, dropout=chosen.dropout)
        reader = open_reader(chosen, questions, retriever)
        checked = check_rag(settings, questions, retriever, reader)
        warn(settings, [strategy])
        output = folder.begin()
        result = train_rag_checked(
            questions, retriever, reader, output, checked, resume=chosen.resume
        )
        folder.finish(questions.counts, [result])
    if rank() > 0:
        return
    title = f"{questions.dataset.name}, {chosen.eval_split} split, in percent"
    print_runs([result], title=title)
    print(f"retriever: {output / 'model'}\nreader:    {output / 'reader'}")
    print(f"results:   {output / RESULTS}\nask it:    unstale answer 'QUESTION' --run {output}")


def open_reader(chosen: RagFlags, questions: QuestionSet, retriever: SentenceTransformer) -> Reader:
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
