"""The same model gets the same numbers from sentence-transformers' evaluator and from mteb."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

from unstale.data.dataset import Qrels, RetrievalDataset
from unstale.encoders.tokenise import target_tokens
from unstale.evaluation.evaluator import Evaluator


@pytest.fixture(scope="module")
def judged(dataset: RetrievalDataset) -> RetrievalDataset:
    """Judge 40 queries, each with one to three relevant targets drawn at random."""
    random = np.random.default_rng(0)
    pairs = [(q, t) for q in range(40) for t in random.choice(120, 1 + q % 3, replace=False)]
    query, target = np.array(pairs).T
    return replace(dataset, qrels={"test": Qrels(query, target, np.ones(len(pairs), np.int64))})


def ours(model: SentenceTransformer, dataset: RetrievalDataset) -> dict[str, float]:
    tokens = target_tokens(model, dataset)
    return Evaluator(dataset, "test", tokens, progress=False)(model)


def test_information_retrieval_evaluator(
    judged: RetrievalDataset, static_model: SentenceTransformer
) -> None:
    relevant: dict[str, set[str]] = {}
    for query, target in judged.split("test").pairs.tolist():
        relevant.setdefault(f"q{query}", set()).add(f"t{target}")
    evaluate = InformationRetrievalEvaluator(
        {key: judged.queries[int(key[1:])] for key in relevant},
        {f"t{row}": text for row, text in enumerate(judged.targets)},
        relevant,
        precision_recall_at_k=[1, 5, 10, 20, 100],
        accuracy_at_k=[1, 5, 10, 20, 100],
    )
    theirs = evaluate(static_model)
    found = ours(static_model, judged)
    assert 0 < found["ndcg@10"] < 1
    assert found["success@5"] > found["recall@5"]  # several targets are relevant
    for name, value in found.items():
        if not name.startswith("answer_recall"):  # they have none
            same = name.replace("success", "accuracy")
            assert theirs[f"cosine_{same}"] == pytest.approx(value, abs=1e-6), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # mteb calls what mteb and sentence-transformers renamed
def test_mteb(judged: RetrievalDataset, static_model: SentenceTransformer, tmp_path: Path) -> None:
    """Export the model, load it anew, and run it through mteb on the same data as a task."""
    mteb = pytest.importorskip("mteb", reason="mteb is not installed: pip install unstale[mteb]")
    from tests.evaluation.mteb_task import local_task

    static_model.save_pretrained(str(tmp_path / "model"))
    exported = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    results = mteb.evaluate(exported, local_task(judged), cache=None)
    (scores,) = results.task_results[0].scores["test"]
    found = ours(static_model, judged)
    for name in ("ndcg@10", "recall@10", "mrr@10"):
        theirs = scores[name.replace("@", "_at_")]
        assert theirs == pytest.approx(found[name], abs=1e-5), name  # mteb rounds to 5 digits
