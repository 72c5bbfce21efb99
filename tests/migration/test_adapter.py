"""The query adapter: what it asks of an old index, and how the say of each model is found."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from unstale.data.dataset import Qrels
from unstale.errors import InputError
from unstale.migration.adapter import QueryAdapter
from unstale.migration.fusion import (
    EQUAL,
    WEIGHTS,
    BothQueries,
    Judged,
    choose_weight,
    fit_adapter,
    weigh,
)
from unstale.migration.on_read import FreshVectors, ReadThrough
from unstale.migration.vectors import ArrayVectors

ROWS, OLD, NEW = 400, 8, 12


class World:
    """Two models see the same texts, each with noise of its own; a query is a noisy target."""

    def __init__(self, old_noise: float, new_noise: float, of_targets: float = 0.1) -> None:
        random = np.random.default_rng(0)
        texts = random.normal(size=(ROWS, OLD))
        turn = np.linalg.qr(random.normal(size=(NEW, NEW)))[0][:OLD]

        def see(meant, noise, turned):
            seen = (meant + noise * random.normal(size=meant.shape)) @ (
                turn if turned else np.eye(OLD)
            )
            return torch.from_numpy(seen / np.linalg.norm(seen, axis=1, keepdims=True)).float()

        self.stale, self.fresh = (see(texts, of_targets, turned) for turned in (False, True))
        self.asked = np.arange(0, ROWS, 2)
        meant = texts[self.asked]
        self.queries = BothQueries(see(meant, old_noise, False), see(meant, new_noise, True))
        self.source = ArrayVectors(Path("old.npy"), self.stale.numpy())

    def adapter(self) -> QueryAdapter:
        rows = torch.arange(1, ROWS, 2)
        held = np.arange(len(rows)) % 4 == 0
        return fit_adapter(self.stale[rows], self.fresh[rows], held, self.queries, {})

    def found(self, queries) -> float:
        """Return how many queries find their own target first."""
        best = (torch.from_numpy(queries) @ self.stale.T).argmax(dim=1)
        return float((best.numpy() == self.asked).mean())

    def judged(self) -> Judged:
        rows = np.arange(len(self.asked))
        return Judged(self.queries, Qrels(rows, self.asked, np.ones_like(rows)), rows)


def test_both_models_find_more_in_the_old_index_than_either() -> None:
    world = World(0.6, 0.6)
    adapter = world.adapter()
    old, new = (side.numpy() for side in world.queries)
    both = world.found(adapter(old, new))
    assert both > world.found(old) + 0.1
    assert both > world.found(new @ adapter.matrix.T) + 0.1
    assert world.found(replace(adapter, weight=1.0)(old, new)) == world.found(old)  # it can stay


def test_judgements_move_the_weight_only_where_they_are_sure() -> None:
    sure = World(0.2, 3.0)  # the new model's queries are worth little
    assert choose_weight(weigh(sure.adapter(), sure.source, sure.judged())) > EQUAL
    even = World(0.6, 0.6)
    assert choose_weight(weigh(even.adapter(), even.source, even.judged())) == EQUAL
    noise = np.random.default_rng(0).random((len(WEIGHTS), 60))
    assert choose_weight(noise) == EQUAL


def test_known_fresh_vectors_and_predicted_ones_are_scored_on_one_scale() -> None:
    world = World(0.3, 0.3)
    adapter = world.adapter()
    old, new = world.queries.old[0].numpy(), world.queries.new[0].numpy()
    stale, fresh = world.stale.numpy(), world.fresh.numpy()
    unknown = adapter.rescore(old, new, stale, np.full_like(fresh, np.nan))
    known = adapter.rescore(old, new, stale, fresh)
    assert np.abs(known.mean() - unknown.mean()) < 0.1 * unknown.std()
    assert np.corrcoef(known, unknown)[0, 1] > 0.9
    # The search ranks as the score of what is not known does.
    assert np.argsort(-unknown).tolist() == np.argsort(-stale @ adapter(old, new)).tolist()
    half = np.where(np.arange(ROWS)[:, None] % 2, fresh, np.nan)
    np.testing.assert_allclose(
        adapter.rescore(old, new, stale, half),
        np.where(np.arange(ROWS) % 2, known, unknown),
        rtol=1e-5,
    )


def test_it_is_saved_and_loaded_without_torch(tmp_path: Path) -> None:
    adapter = World(0.3, 0.3).adapter()
    adapter.save(tmp_path)
    again = QueryAdapter.load(tmp_path)
    old, new = np.ones((2, OLD), np.float32), np.ones((2, NEW), np.float32)
    np.testing.assert_array_equal(adapter(old, new), again(old, new))
    code = "import sys; from unstale.migration.adapter import QueryAdapter\n"
    code += "QueryAdapter.load(sys.argv[1]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    with pytest.raises(InputError, match="new model's queries have width 12, got 8"):
        adapter(old, old)
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name, torn in (
        ("adapter.json", b"[]"), ("adapter.json", b"{}"), ("adapter.json", b'{"format": 1'),
        ("adapter.json", whole["adapter.json"].replace(b"weight", b"wait")),
        ("adapter.safetensors", whole["adapter.safetensors"][:99]),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(torn)
        with pytest.raises(InputError, match="holds no query adapter"):
            QueryAdapter.load(tmp_path)
        (tmp_path / name).write_bytes(whole[name])
    with pytest.raises(InputError, match="holds no query adapter"):
        QueryAdapter.load(tmp_path / "nowhere")


def test_what_is_read_is_embedded_once_within_the_budget_and_kept(tmp_path: Path) -> None:
    world = World(0.2, 0.2, of_targets=0.6)
    adapter, asked = world.adapter(), []
    stale, fresh = world.stale.numpy(), world.fresh.numpy()

    def embed(ids):
        asked.extend(ids)
        return fresh[[int(id) for id in ids]]

    def serve(budget) -> float:
        kept = FreshVectors(tmp_path / f"{budget}.sqlite", NEW)
        reading = ReadThrough(adapter, kept, embed, budget)
        first = []
        for old, new in zip(world.queries.old.numpy(), world.queries.new.numpy(), strict=True):
            found = np.argsort(-stale @ adapter(old, new))[:20]
            order = reading.rank(old, new, [str(row) for row in found], stale[found])
            first.append(found[order[0]])
        return float((np.array(first) == world.asked).mean())

    least = serve(0)
    assert not asked
    some = serve(50)
    assert len(asked) == len(set(asked)) == 50
    assert serve(50) == some  # nothing more is embedded by who asks again
    assert len(asked) == 50
    asked.clear()
    assert serve(None) > least
    assert len(asked) == len(set(asked)) > 50


def test_sampled_targets_near_a_query_correct_what_the_linear_map_predicts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The new model bends the space, so no linear map predicts its scores."""
    random = np.random.default_rng(0)
    stale = random.normal(size=(ROWS, OLD)).astype(np.float32)
    stale /= np.linalg.norm(stale, axis=1, keepdims=True)
    fresh = np.concatenate([stale * np.abs(stale) * 2, stale[:, :4]], axis=1)
    taught, unseen = torch.arange(0, ROWS, 2), np.arange(1, ROWS, 2)
    queries = BothQueries(*(torch.from_numpy(side[unseen]) for side in (stale, fresh)))
    held = np.arange(len(taught)) % 4 == 0
    both = (torch.from_numpy(side)[taught] for side in (stale, fresh))
    adapter = fit_adapter(*both, held, queries, {})

    def error() -> float:
        guessed = adapter.predicting(*(side.numpy() for side in queries)) @ stale[unseen].T
        lacking = queries.new.numpy() @ fresh[unseen].T - guessed
        near = np.argsort(-queries.new.numpy() @ fresh[unseen].T, axis=1)[:, :20]
        return float(np.take_along_axis(lacking, near, axis=1).std(axis=1).mean())

    mended = error()
    monkeypatch.setattr("unstale.migration.adapter.NOISE", 1e9)  # nothing is believed
    assert mended < 0.95 * error()


def test_an_adapter_that_is_judged_by_held_out_targets_does_not_hold_them() -> None:
    world = World(0.3, 0.3)
    held = np.arange(ROWS) % 4 == 0
    args = (world.stale, world.fresh, held, world.queries, {})
    judging, whole = fit_adapter(*args, judging=True), fit_adapter(*args)
    assert (len(judging.stale), len(whole.stale)) == (300, 400)
    known = {row.tobytes() for row in world.stale[torch.from_numpy(held)].numpy()}
    assert not known & {row.tobytes() for row in judging.stale}
    assert not np.array_equal(judging.matrix, whole.matrix)


def test_of_many_targets_an_adapter_holds_those_that_queries_asked_for(monkeypatch) -> None:
    """At random they would be lost among the others; half of the places are kept for the others."""
    monkeypatch.setattr("unstale.migration.fusion.KEPT", 20)
    random = np.random.default_rng(0)
    stale, fresh = (torch.from_numpy(random.normal(size=(200, 6))).float() for _ in range(2))
    stale[:, 0] = torch.arange(200)  # by which a row is known
    held, queries = np.arange(200) % 5 == 0, BothQueries(stale[:3], fresh[:3])

    def kept(asked: list[int], *, judging: bool = False) -> list[int]:
        given = (stale, fresh, held, queries, {})
        asked_for = np.isin(np.arange(200), asked)
        return fit_adapter(*given, asked_for=asked_for, judging=judging).stale[:, 0].tolist()

    few, many = [1, 2, 3, 5], list(range(100, 180))
    assert set(few) <= set(kept(few))
    assert len(set(kept(few))) == 20
    assert 10 <= len(set(many) & set(kept(many))) < 20
    judging = kept(few, judging=True)
    assert {1, 2, 3} <= set(judging)
    assert not set(judging) & set(held.nonzero()[0].tolist())  # 5 is held out
