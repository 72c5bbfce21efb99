import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from unstale.data.dataset import Qrels, RetrievalDataset, Texts
from unstale.encoders.tokenise import target_tokens
from unstale.evaluation.metrics import MEASURES, means, measure, write_run
from unstale.evaluation.retrieve import fresh_chunks, retrieve
from unstale.search.best import TopK


def test_by_hand() -> None:
    # Query 4 has targets 0 and 1; found at ranks 2 and 12. Query 9 has target 7, found first.
    qrels = Qrels(np.array([4, 4, 9]), np.array([0, 1, 7]), np.array([1, 1, 1]))
    ranked = [[50, 0, *range(51, 60), 1, 60], [7, *range(51, 63)]]
    scores = torch.arange(13, 0, -1).float().expand(2, 13)
    values = measure(qrels, np.array([4, 9]), TopK(scores, torch.tensor(ranked)))
    assert values["recall@1"].tolist() == [0, 1]
    assert values["recall@10"].tolist() == [1 / 2, 1]
    assert values["recall@20"].tolist() == [1, 1]
    assert values["mrr@10"].tolist() == [1 / 2, 1]
    ideal = 1 + 1 / math.log2(3)
    assert values["ndcg@10"][0] == pytest.approx(1 / math.log2(3) / ideal)
    assert means(values)["recall@10"] == 0.75
    assert set(values) == set(MEASURES)


def test_a_query_that_finds_nothing_counts_as_zero() -> None:
    qrels = Qrels(np.array([0, 1]), np.array([0, 1]), np.array([1, 1]))
    found = TopK(torch.ones(2, 1), torch.tensor([[0], [0]]))
    assert means(measure(qrels, np.array([0, 1]), found))["recall@1"] == 0.5


def test_graded_judgements_weigh_in_ndcg() -> None:
    qrels = Qrels(np.array([0, 0]), np.array([0, 1]), np.array([2, 1]))
    found = TopK(torch.tensor([[2.0, 1.0]]), torch.tensor([[1, 0]]))
    ideal = 2 + 1 / math.log2(3)
    expected = (1 + 2 / math.log2(3)) / ideal
    assert measure(qrels, np.array([0]), found)["ndcg@10"][0] == pytest.approx(expected)


def test_retrieve_equals_one_matrix_product(
    static_model: SentenceTransformer, dataset: RetrievalDataset
) -> None:
    rows = dataset.split("test").query_rows
    tokens = target_tokens(static_model, dataset, progress=False)
    found = retrieve(static_model, dataset, rows, fresh_chunks(static_model, tokens), k=7)
    queries = torch.tensor(static_model.encode_query(dataset.queries.take(rows)))
    targets = torch.tensor(static_model.encode_document(dataset.targets.take(range(120))))
    torch.testing.assert_close(found.scores, (queries @ targets.T).topk(7).values)


def test_the_target_with_the_querys_own_id_is_dropped(static_model: SentenceTransformer) -> None:
    texts = ["red castle", "blue river", "green planet"]
    dataset = RetrievalDataset(
        name="same",
        target_ids=Texts.of(["a", "b", "c"]),
        targets=Texts.of(texts),
        query_ids=Texts.of(["b", "z"]),
        queries=Texts.of(["blue river", "blue river"]),
        qrels={"test": Qrels(np.array([0, 1]), np.array([0, 1]), np.array([1, 1]))},
    )
    tokens = target_tokens(static_model, dataset, progress=False)
    found = retrieve(static_model, dataset, np.array([0, 1]), fresh_chunks(static_model, tokens))
    assert 1 not in found.rows[0].tolist()
    assert found.rows[1, 0].item() == 1
    assert found.rows.shape == (2, 2)


def test_a_run_file_is_read_by_other_tools(dataset: RetrievalDataset, tmp_path: Path) -> None:
    import ir_measures

    found = TopK(torch.tensor([[0.9, 0.5]]), torch.tensor([[3, 1]]))
    write_run(tmp_path / "x.run", dataset, np.array([3]), found, "tag")
    assert (tmp_path / "x.run").read_text().splitlines()[0] == "q3 Q0 t3 1 0.900000 tag"
    (first, second) = ir_measures.read_trec_run(str(tmp_path / "x.run"))
    assert (first.doc_id, first.score, second.doc_id) == ("t3", 0.9, "t1")


def test_spaces_in_ids_do_not_break_a_run_file(
    dataset: RetrievalDataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import ir_measures

    ids = ["Ada Lovelace", "50% off", "50%20off", "tab\tand\u2003em"]
    odd = replace(dataset, target_ids=Texts.of(ids), query_ids=Texts.of(["q\n1"]))
    found = TopK(torch.tensor([[0.9, 0.8, 0.7, 0.6]]), torch.tensor([[0, 1, 2, 3]]))
    write_run(tmp_path / "x.run", odd, np.array([0]), found, "tag")
    run = list(ir_measures.read_trec_run(str(tmp_path / "x.run")))
    assert {row.query_id for row in run} == {"q%0A1"}
    wanted = ["Ada%20Lovelace", "50%25%20off", "50%20off", "tab%09and%E2%80%83em"]
    assert [row.doc_id for row in run] == wanted
    assert "x.run: 4 ids hold spaces, which a run cannot: written as 'q%0A1'" in caplog.text
