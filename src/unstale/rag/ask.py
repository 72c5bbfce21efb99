"""Ask a trained retriever and reader: a question in, an answer and its sources out."""

from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float, Int
from sentence_transformers import SentenceTransformer
from torch import Tensor

from unstale.buffer.buffer import TargetBuffer
from unstale.data.dataset import RetrievalDataset
from unstale.encoders.embed import embed_queries
from unstale.rag.answering import answer
from unstale.rag.reader import Reader
from unstale.search.exact import Exact


@final
class Answered(NamedTuple):
    """An answer, the rows of the targets it was read from, and P(y|x) of each."""

    text: str
    rows: Int[Tensor, " k"]
    probabilities: Float[Tensor, " k"]


@final
class Asker:
    """Answer questions as a run was trained to.

    Args:
        buffer: The corpus, embedded by the retriever; None if the run answers from memory.
        how: What the run says of its answering: `k`, `fusion` and `scale`.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        reader: Reader,
        dataset: RetrievalDataset,
        buffer: TargetBuffer | None,
        how: dict[str, Any],
    ) -> None:
        self.model, self.reader, self.dataset, self.how = model, reader, dataset, how
        self._search = None if buffer is None else Exact(buffer)

    def __call__(self, question: str) -> Answered:
        """Retrieve for one question, and read the answer from what was found."""
        if self._search is None:
            said = answer(self.reader, [question], None)[0]
            return Answered(said, torch.zeros(0, dtype=torch.long), torch.zeros(0))
        best = self._search.top_k(embed_queries(self.model, [question]), self.how["k"])
        log_p = torch.log_softmax(self.how["scale"] * best.scores, dim=1)
        texts = self.dataset.targets.take(best.rows[0].numpy())
        said = answer(self.reader, [question], [texts], log_p, fusion=self.how["fusion"])[0]
        return Answered(said, best.rows[0], log_p[0].exp())
