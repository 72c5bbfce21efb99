"""The flags of `unstale rag` and `unstale answer`."""

from dataclasses import dataclass

from unstale.cli.options import Dropout, EncoderShape, Resumable
from unstale.declare import setting
from unstale.rag.settings import RagSettings


@dataclass(frozen=True)
class Rag(Resumable, RagSettings, Dropout, EncoderShape):
    """Train both. Writes results.json, config.yaml, model/ (the retriever) and reader/.

    Args:
        data: Questions with answers and a corpus: a BEIR folder with `metadata.answers`, a folder
            of train/dev/test files as NQ-open, TriviaQA, HotPotQA, FiD or Atlas write them (with
            corpus.jsonl, or contexts in the files), or the built-in made-up world facts.
        retriever: Retriever to load: `tiny` (built in, made for a CPU), a sentence-transformers
            folder or hub name.
        reader: Reader to load: `tiny` (a small untrained T5, for small worlds), or the folder or
            hub name of any T5-like model.
        reader_max_length: Truncate a question with its target after N tokens.
        answer_length: Largest number of tokens of an answer.
    """

    data: str = setting("facts", local=True)
    retriever: str = "tiny"
    reader: str = "tiny"
    reader_max_length: int = 256
    answer_length: int = 64

    @property
    def model(self) -> str:
        """The encoder, by the name that other commands have for it."""
        return self.retriever


@dataclass(frozen=True)
class Answer:
    """Answer. Shows the answer, the targets it was read from and their probabilities.

    Args:
        question: What to answer.
        run: A run folder that `unstale rag` wrote.
        width: Characters of each target to show.
    """

    question: str
    run: str = "runs/rag"
    width: int = 200
