"""Filters of what is retrieved: which targets are read, and what a missing one does to losses."""

from pathlib import Path

import pytest
import torch
from tests.rag.test_algorithm2 import ROWS, algorithm, told_apart
from tests.rag.test_job import SMALL

from unstale.errors import InputError
from unstale.filters import Filters
from unstale.miners.filters import FalseNegatives
from unstale.miners.miner import Queries
from unstale.rag.job import train_rag
from unstale.rag.reader import reader_input


def filtered(questions, encoder, reader, rules: Filters, **options):
    filters = FalseNegatives(rules, reach=len(questions.dataset.targets))
    return algorithm(questions, encoder, reader, filters=filters, **options)


def scores_of(questions, encoder) -> torch.Tensor:
    """Score every target for the questions; the first corrector changes nothing."""
    texts = questions.dataset.queries.take(ROWS.numpy())
    targets = questions.dataset.targets.take(range(len(questions.dataset.targets)))
    return torch.tensor(encoder.encode_query(texts) @ encoder.encode_document(targets).T)


def retrieved(whole, questions, encoder) -> torch.Tensor:
    vectors = torch.tensor(encoder.encode_query(questions.dataset.queries.take(ROWS.numpy())))
    return whole._retrieve(Queries(vectors, ROWS, torch.full((4, 1), -1), 0, whole.scale))[0]


def test_what_is_read_is_what_brute_force_leaves(questions, retriever, reader) -> None:
    """By rank and score, of the retriever's own list and of what the start ranked first."""
    scores = scores_of(questions, retriever)
    order = scores.argsort(dim=1, descending=True)
    bar = float(scores.gather(1, order)[:, 5].max()) + 1e-6  # some question loses some
    rules = Filters(max_score=bar, range_min=2)
    start = torch.zeros(120, 3, dtype=torch.long)
    start[ROWS] = order[:, :3]  # the best: dropped for their score, or as the first two
    alone = filtered(questions, retriever, reader, rules)
    beside = filtered(questions, retriever, reader, rules, start=start, start_targets=2)
    left = [[r for r in row if scores[i, r] <= bar][2:] for i, row in enumerate(order.tolist())]
    assert any(row[:2] != own for row, own in zip(order[:, 2:4].tolist(), left, strict=True))
    assert retrieved(alone, questions, retriever).tolist() == [row[:3] for row in left]
    expected = []
    for own, first in zip(left, start[ROWS].tolist(), strict=True):
        kept = [own[0], *(row for row in first if row in own and row != own[0])]
        expected.append([*kept, *(row for row in own[:3] if row not in kept)][:3])
    assert retrieved(beside, questions, retriever).tolist() == expected
    counted = alone.record.counters
    assert counted.candidates_dropped["range_min"] == 2 * 4
    assert counted.candidates_considered == 4 * 32  # ten times k, and the two to skip


@pytest.mark.parametrize("fusion", ["fid", "marginal"])
def test_a_question_with_fewer_targets_has_the_loss_of_these(
    questions,
    retriever,
    reader,
    fusion: str,
) -> None:
    """One question has three targets, one two, one a single one and one is read alone."""
    scores = scores_of(questions, retriever).sort(dim=1, descending=True)
    whole = filtered(questions, retriever, reader, Filters(min_score=-9.0), fusion=fusion)
    left = torch.tensor([3, 2, 1, 0])
    mined = scores.indices[:, :3].where(torch.arange(3) < left[:, None], -1)
    whole.filters.mine = lambda *_: (mined, None)
    losses = whole(ROWS)
    sum(losses.values()).backward()
    assert all(p.grad.isfinite().all() for p in whole.parameters() if p.grad is not None)
    nll, tokens, distilled = 0.0, 0, 0.0
    for i, row in enumerate(ROWS.tolist()):
        question, n = questions.dataset.queries[row], int(left[i])
        labels = reader.labels(questions.answers[row])
        texts = [*questions.dataset.targets.take(mined[i, :n].numpy()), *[None] * (3 - n)]
        with torch.no_grad():
            each = [reader.encode([reader_input(question, text)]) for text in texts]
            logs = torch.stack([reader.log_probs(one, labels).sum() for one in each])
            p = torch.softmax(whole.scale * scores.values[i, :n], 0) if n else torch.ones(1)
            logs, tokens = logs[: max(1, n)], tokens + labels.numel()
            if fusion == "marginal":
                nll -= float(torch.log((logs.exp() * p).sum())) / len(ROWS)
            else:  # it sees the question again where a target is missing
                fused = reader.encode([reader_input(question, text) for text in texts]).fused(3)
                nll -= float(reader.log_probs(fused, labels).sum())
        p_a = torch.softmax(logs, 0)
        distilled -= told_apart(p_a) * float((p_a * p.log()).sum()) / 4 if n > 1 else 0.0
    nll /= 1 if fusion == "marginal" else tokens
    assert losses["reader_loss"].item() == pytest.approx(nll / 2, rel=1e-4)
    assert losses["retriever_loss"].item() == pytest.approx(distilled / 2, rel=1e-4)


def test_a_run_counts_what_filters_drop(start, questions, tmp_path: Path) -> None:
    options = SMALL | {"steps": 2, "filters": Filters(range_min=1)}
    done = train_rag(questions, *start(), tmp_path / "run", **options)
    assert done.candidates_dropped == {"range_min": 2 * 8}  # steps, questions in one
    assert done.candidates_considered == 2 * 8 * 4
    with pytest.raises(InputError, match="there is nothing to filter"):
        train_rag(questions, *start(), tmp_path / "none", **options | {"strategy": "none"})


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (Filters(relative_margin=0.05), "--relative-margin: it compares with a positive"),
        (Filters(range_min=1, range_max=3), "cannot mine 3 targets between --range-min 1"),
    ],
)
def test_rules_that_cannot_work_are_refused(start, questions, tmp_path, filters, message) -> None:
    with pytest.raises(InputError, match=message):
        train_rag(questions, *start(), tmp_path / "run", **SMALL | {"filters": filters})
    assert not (tmp_path / "run").exists()
