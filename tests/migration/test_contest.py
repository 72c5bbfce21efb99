"""What judged queries would find, told from a few embedded targets, against the truth."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from unstale.corrector.closed_form import least_squares
from unstale.corrector.projected import ProjectedCorrector
from unstale.data.dataset import Qrels
from unstale.migration.contest import Contests, Curve, summed
from unstale.migration.fusion import BothQueries, Judged, fit_adapter
from unstale.migration.index import Known
from unstale.migration.validate import Pairs
from unstale.migration.vectors import ArrayVectors
from unstale.migration.ways import ALL, PART, READ, STAY, Trial

ROWS, ASKED, SAMPLE, WIDTH = 1500, 300, 300, 24


def test_a_rival_is_described_by_what_it_needs_to_win() -> None:
    """The target was predicted 0.3 and scored 0.5, by a query of mean 0.1 and deviation 0.2."""
    one = (np.array([[value]]) for value in (0.9, 0.3, 0.5, 0.1, 0.2))
    contests = Contests(np.array([0]), np.array([7]), *one)
    # Predicted 0.3, too, so level with the target; 0.4 above it; and one that needs 0.1 more.
    guess, needed = np.array([[0.3, 0.7, 0.3]]), np.array([[0.5, 0.5, 0.6]])
    sides = contests.sides(guess, needed)
    np.testing.assert_allclose(sides[0, :, 0], 1)
    np.testing.assert_allclose(sides[0, :, 1], [0, 0.4 / 0.2, -0.1 / 0.2], atol=1e-12)
    np.testing.assert_allclose(sides[0, :, 2], (0.5 - 0.3) / 0.2)
    np.testing.assert_allclose(sides[0, :, 3], [0.4 / 0.2, 0.4 / 0.2, 0.5 / 0.2])


def test_the_curve_is_the_one_that_made_the_outcomes() -> None:
    random = np.random.default_rng(0)
    sides = np.stack([np.ones(20_000), *random.normal(size=(2, 20_000))], axis=1)
    slopes = np.array([-0.5, 1.5, -1.0])
    won = random.random(20_000) < ndtr(sides @ slopes)
    curve = Curve.fit(sides, won)
    np.testing.assert_allclose(curve.slopes, slopes, atol=0.08)
    assert curve.chance(sides[:3]) == pytest.approx(ndtr(sides[:3] @ curve.slopes))
    # Where every known rival wins, the chance is high, and finite.
    assert 0.9 < Curve.fit(sides[:50, :1], np.ones(50, bool)).chance(np.ones((1, 1)))[0] < 1


def test_winners_are_counted_with_their_variance() -> None:
    # One who wins for sure, one who may: 1 + 1/4 winners, variance 1/4 * 3/4.
    np.testing.assert_allclose(summed(np.array([[1.0, 0.25]])), [[1.25, 0.1875]])


def unit(vectors: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).float()


def world(old: float, new: float) -> tuple[Trial, Judged, torch.Tensor, torch.Tensor]:
    """Two models see the same texts, each with noise of its own; a fifth of them is embedded."""
    random = np.random.default_rng(0)
    texts = random.normal(size=(ROWS, WIDTH))
    turn = np.linalg.qr(random.normal(size=(WIDTH, WIDTH)))[0]

    def noisy(meant: np.ndarray, noise: float) -> np.ndarray:
        return meant + noise * random.normal(size=meant.shape)

    stale, fresh = unit(noisy(texts, old)), unit(noisy(texts, new) @ turn)
    order = random.permutation(ROWS)
    asked, drawn = np.sort(order[:ASKED]), np.sort(random.permutation(ROWS)[:SAMPLE])
    meant = noisy(texts[asked], 0.7)
    queries = BothQueries(unit(noisy(meant, old)), unit(noisy(meant, new) @ turn))
    rows = np.random.default_rng(1).permutation(ASKED)  # in no order of the qrels' rows
    qrels = Qrels(np.arange(ASKED), asked, np.ones(ASKED, np.int64))
    judged = Judged(queries.take(rows), qrels, rows)
    held = np.arange(SAMPLE) % 5 == 0
    some = torch.from_numpy(drawn)
    adapter = fit_adapter(stale[some], fresh[some], held, judged.queries, {}, judging=True)
    taught, apart = some[torch.from_numpy(~held)], some[torch.from_numpy(held)]
    trial = Trial(
        ArrayVectors(Path("old.npy"), stale.numpy()), adapter,
        ProjectedCorrector(least_squares(stale[taught], fresh[taught])).eval(),
        Known(taught, fresh[taught]), Known(torch.from_numpy(asked), fresh[asked]),
        Pairs(stale[apart], fresh[apart]),
    )  # fmt: skip
    return trial, judged, stale, fresh


def by_both(trial: Trial, judged: Judged, stale: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
    """Return the first ten of what the old index fetches, ranked by old and new scores."""
    old, new = judged.queries
    mixed = torch.from_numpy(trial.adapter.mixed(old.numpy(), new.numpy()))
    fetched = (mixed @ stale.T).topk(READ, dim=1).indices
    both = (old @ stale.T + trial.adapter.scale * now).gather(1, fetched)
    return fetched.gather(1, both.topk(10, dim=1).indices)


def found_own(judged: Judged, best: torch.Tensor) -> np.ndarray:
    own = judged.qrels.pairs[judged.rows, 1]
    return (best == torch.from_numpy(own)[:, None]).any(dim=1).numpy()


@pytest.mark.parametrize(("old", "new"), [(0.6, 0.4), (0.4, 0.6)])
def test_what_embedding_would_find_is_told_from_a_fifth_of_the_targets(
    old: float, new: float
) -> None:
    trial, judged, stale, fresh = world(old, new)
    values, weight = trial.run(judged)
    assert weight == 0.5  # so that both halves of the queries fetch alike
    then, now = judged.queries.old @ stale.T, judged.queries.new @ fresh.T
    best = {STAY: then.topk(10, dim=1).indices, ALL: now.topk(10, dim=1).indices}
    best[PART] = by_both(trial, judged, stale, now)
    for way, rows in best.items():
        truth = found_own(judged, rows)
        assert values[way].mean() == pytest.approx(truth.mean(), abs=0.02), way
        if way != STAY:  # it tells queries apart, too
            assert values[way][truth].mean() > values[way][~truth].mean() + 0.5


def test_what_is_embedded_beats_a_target_or_not_for_certain(monkeypatch) -> None:
    """If nothing else could win, the embedded targets that score higher are counted."""
    trial, judged, _, fresh = world(0.5, 0.5)
    # No rival that is only predicted ever wins.
    monkeypatch.setattr(Curve, "chance", lambda _, sides: np.zeros(sides.shape[:-1]))
    now = judged.queries.new @ fresh.T
    own = torch.from_numpy(judged.qrels.pairs[judged.rows, 1])
    embedded = torch.cat([trial.sample.rows, trial.relevant.rows]).unique()
    rivals = embedded != own[:, None]
    beaten = (now[:, embedded] > now.gather(1, own[:, None])) & rivals
    expected = (beaten.sum(dim=1) < 10).numpy()
    assert 0.1 < expected.mean() < 0.99
    assert trial.run(judged)[0][ALL].round().tolist() == expected.tolist()


def test_the_predicted_margin_tells_rivals_apart(monkeypatch) -> None:
    """The curve that is fitted to held-out targets leans on it: a rival predicted higher wins."""
    trial, judged, _, _ = world(0.4, 0.6)
    fitted, fit = [], Curve.fit
    monkeypatch.setattr(Curve, "fit", lambda *given: fitted.append(fit(*given)) or fitted[-1])
    trial.run(judged)
    described = Contests(np.array([0]), np.array([7]), *(np.array([[v]]) for v in (0, 0, 0, 0, 1)))
    low, high = fitted[0].chance(described.sides(np.array([[-1.0, 1.0]]), np.zeros((1, 2))))[0]
    assert low < 0.3
    assert high > 0.7


def test_what_is_read_is_ranked_by_what_is_known_and_by_what_is_predicted(monkeypatch) -> None:
    """With a curve that has no doubt, the higher predicted score wins."""
    trial, judged, stale, fresh = world(0.5, 0.5)
    sure = Curve(np.array([0.0, 1e6, 0.0, 0.0]))
    monkeypatch.setattr(Curve, "fit", lambda *_: sure)
    adapter, (old, new) = trial.adapter, (side.numpy() for side in judged.queries)
    guess = (stale.numpy() - adapter.mean_old) @ adapter.predicting(old, new).T
    now = torch.from_numpy(guess.T + (new @ adapter.mean_new)[:, None])
    # A surprise of the relevant target is, for such a curve, one of all that were not embedded.
    own = judged.qrels.pairs[judged.rows, 1]
    here = np.arange(len(own))
    now += (judged.queries.new @ fresh.T)[here, own][:, None] - now[here, own][:, None].clone()
    for known in (trial.sample, trial.relevant):
        now[:, known.rows] = judged.queries.new @ known.fresh.T
    expected = found_own(judged, by_both(trial, judged, stale, now))
    found = trial.run(judged)[0][PART]
    assert 0.3 < expected.mean() < 0.97
    assert (found.round() == expected).mean() > 0.995  # ties of rounding aside
