"""A dataset of ours as a retrieval task of mteb, without anything from the hub."""

from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

from unstale.data.dataset import RetrievalDataset


def local_task(dataset: RetrievalDataset, split: str = "test") -> AbsTaskRetrieval:
    """Make a task whose data is in memory already."""

    class LocalTask(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name="LocalWorld",
            description="Topics and facts.",
            dataset={"path": "local/world", "revision": "0"},
            type="Retrieval",
            category="t2t",
            eval_splits=[split],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
        )

    task = LocalTask()
    qrels = dataset.split(split)
    relevant: dict[str, dict[str, int]] = {}
    for query, target in qrels.pairs.tolist():
        relevant.setdefault(dataset.query_ids[query], {})[dataset.target_ids[target]] = 1
    rows = qrels.query_rows
    asked = {"id": dataset.query_ids.take(rows), "text": dataset.queries.take(rows)}
    corpus = {"id": list(dataset.target_ids), "text": list(dataset.targets)}
    data = {
        "corpus": Dataset.from_dict(corpus),
        "queries": Dataset.from_dict(asked),
        "relevant_docs": relevant,
        "top_ranked": None,
    }
    task.dataset = {"default": {split: data}}
    task.data_loaded = True
    return task
