"""Is the run still getting better? Its dev queries tell, and the best weights are kept."""

import logging
from pathlib import Path
from typing import final

import torch
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import RetrievalDataset
from unstale.distributed import exchange, rank
from unstale.encoders.embed import embed_queries
from unstale.evaluation.evaluator import sample_queries
from unstale.evaluation.metrics import means, measure
from unstale.evaluation.retrieve import own_rows
from unstale.miners.miner import Miner
from unstale.search.best import TopK
from unstale.training.best import BestByDev, KeptWeights, Look, kept_look
from unstale.training.callbacks import Steps
from unstale.training.record import RunRecord
from unstale.training.trainer import FreshTrainer

_LOG = logging.getLogger(__name__)
_K = 10
METRIC = "ndcg@10"  # what decides
_LEVEL = 0.003  # earlier weights must be better by more: the last have the lowest learning rate


@final
class Guard:
    """Measure dev queries before, during and after training; keep the weights that rank them best.

    During training they are ranked by the miner's view of the corpus, which costs a scan and embeds
    nothing. A strategy without one is measured before and after training only.
    """

    def __init__(
        self, dataset: RetrievalDataset, model: SentenceTransformer, output: Path, seed: int
    ) -> None:
        self.rows = sample_queries(dataset, seed, "dev")
        self.best = KeptWeights(output / "best", {"model": model})
        self._qrels = dataset.split("dev")
        self._texts = dataset.queries.take(self.rows)
        self._own = own_rows(dataset, self.rows)
        self._k = min(_K, len(dataset.targets) - int((self._own >= 0).any()))

    def watch(self, trainer: FreshTrainer, steps: Steps, measured: Look) -> None:
        """Keep the weights of the start, and let a trainer look at the dev queries ten times.

        A resumed run takes those of its checkpoint instead.

        Args:
            trainer: Trains the model; its checkpoints hold the best weights.
            steps: Keeps the clock and the record of the run.
            measured: The dev metrics of the start.
        """
        record, every = steps.algorithm.record, trainer.args.max_steps // 10
        record.looks.append({"step": 0, METRIC: exchange(float(measured[METRIC]))[0]})
        self.best.save()
        trainer.best, look = self.best, record.clock.timed("evaluation", self.look)
        # The last weights are measured by `settle`, over the corpus as they embed it.
        trainer.add_callback(BestByDev(steps, look, self.best, every, score, at_end=False))

    def look(self, model: SentenceTransformer, miner: Miner) -> tuple[dict[str, float], int] | None:
        """Rank the dev queries by the miner's view of the corpus, if it has one of all of it."""
        if miner.covers() is not None:
            return None
        if miner.view(torch.zeros(1, dtype=torch.long, device=model.device)) is None:
            return None
        vectors = embed_queries(model, self._texts).to(model.device)
        ranked = miner.ranked(vectors, self._k, self._own.to(model.device))
        if ranked is None:
            return None
        found = TopK(*(part.cpu() for part in ranked.searched))
        return {METRIC: means(measure(self._qrels, self.rows, found))[METRIC]}, 0

    def settle(self, record: RunRecord, steps: int, measured: Look) -> int:
        """Return to the best weights if the last are worse, and return the step that they are of.

        Args:
            record: Has what was seen on the way.
            steps: The length of the run.
            measured: The dev metrics of the last weights, over the corpus as they embed it.
        """
        last, best = exchange(float(measured[METRIC]))[0], kept_look(record.looks, score)
        kept = steps if last >= best[METRIC] - _LEVEL else int(best["step"])
        record.looks.append({"step": steps, METRIC: last})
        if kept < steps:
            if rank() == 0:
                _LOG.warning(
                    "the weights of step %d are kept: they rank the dev queries better (nDCG@10 "
                    "%.1f%%) than those of the last step, %d (%.1f%%; before training %.1f%%)",
                    kept, 100 * best[METRIC], steps, 100 * last, 100 * record.looks[0][METRIC],
                )  # fmt: skip
            self.best.restore()
        self.best.forget()
        return kept


def score(look: Look) -> tuple[float, ...]:
    """Return what decides between two looks."""
    return (look[METRIC],)
