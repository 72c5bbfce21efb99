"""Every mode against the literal recipe, h applied to every target: each within its promise."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from unstale.buffer.buffer import TargetBuffer
from unstale.buffer.stored import Stored
from unstale.corrector.network import Corrector
from unstale.errors import InputError
from unstale.search import ivf
from unstale.search.added import Added
from unstale.search.auto import Choice, choose, make_search
from unstale.search.best import agreement
from unstale.search.draws import gumbel
from unstale.search.exact import Exact
from unstale.search.ivf import IVF
from unstale.search.rolling import Rolling
from unstale.search.search import Asked, Search
from unstale.settings import Precision

MODES: dict[str, Callable[..., Search]] = {"exact": Exact, "rolling": Rolling, "ivf": IVF}
PRECISIONS: list[Precision] = ["float32", "float16", "int8"]


def clustered(n: int, d: int, seed: int, *, unit: bool = True) -> tuple[Tensor, Tensor, Corrector]:
    """Targets in clusters, queries near some of them, and a corrector that has moved."""
    torch.manual_seed(seed)
    centres = normalize(torch.randn(max(1, n // 40), d))
    stale = normalize(centres[torch.randint(len(centres), (n,))] + normalize(torch.randn(n, d)))
    queries = normalize(stale[torch.randint(n, (9,))] + 0.9 * normalize(torch.randn(9, d)))
    # Norms of h are known only once rows are renewed: as in training, they begin near 1.
    return queries, stale, moved(Corrector(d, (2 * d,), unit=unit), 0.06 if unit else 0.1)


def moved(network: Corrector, by: float) -> Corrector:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(by * torch.randn_like(parameter))
    return network.requires_grad_(False)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    b=st.integers(1, 5),
    duplicates=st.booleans(),
    noisy=st.booleans(),
    unit=st.booleans(),
    data=st.data(),
)
def test_small_buffers_are_searched_exactly(
    mode: str,
    seed: int,
    n: int,
    b: int,
    duplicates: bool,
    noisy: bool,
    unit: bool,
    data: st.DataObject,
) -> None:
    # Up to k + 32 targets are fetched, and the first search reranks all that it fetched.
    k = data.draw(st.integers(1, n))
    torch.manual_seed(seed)
    stale, queries = torch.randn(n, 8), torch.randn(b, 8)
    if unit:  # then the encoder's vectors are unit too
        stale = normalize(stale)
    if duplicates:
        stale = stale[torch.randint(n, (n,))]
    network = moved(Corrector(8, (16,), unit=unit), 0.3)
    search = MODES[mode](TargetBuffer([stale]), network)
    asked = torch.arange(b)
    added = Added(0, queries, asked, gumbel_seed=seed, scale=2.0) if noisy else None
    # Where -1 pads, a search gives up one target that it fetched: it must be able to spare it.
    least = -1 if k < n - 8 else 0
    exclude = torch.randint(least, n, (b, 1)) if k < n else None
    search.begin(0)
    found = search.top_k(queries, k, exclude, added)
    literal = queries @ network(stale).T
    if noisy:
        literal = literal + gumbel(seed, 2.0, 0, asked, torch.arange(n))
    expected = literal.clone()
    if exclude is not None:
        for row, banned in zip(expected, exclude[:, 0].tolist(), strict=True):
            row[banned if banned >= 0 else []] = -torch.inf
    best = expected.topk(k, dim=1).values
    tight = {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(found.scores, best, **tight)
    torch.testing.assert_close(literal.gather(1, found.rows), best, **tight)
    assert all(len(set(rows)) == k for rows in found.rows.tolist())
    if exclude is not None:
        assert not (found.rows == exclude).any()


PROMISES = [("exact", 1.0), ("rolling", 0.99), ("ivf", 0.95)]


@pytest.mark.parametrize(("mode", "promise"), PROMISES)
@pytest.mark.parametrize(
    ("seed", "n", "k", "b", "duplicates", "noisy"),
    [(1, 40, 1, 1, False, True), (2, 120, 8, 3, True, False), (3, 60, 12, 2, False, True)],
)
def test_later_searches_keep_their_promise(
    mode: str, promise: float, seed: int, n: int, k: int, b: int, duplicates: bool, noisy: bool
) -> None:
    assert held_while_h_moves(mode, seed, n, k, b, duplicates, noisy) >= promise


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "promise"), PROMISES)
@settings(max_examples=6)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(40, 400),
    k=st.integers(1, 20),
    b=st.integers(1, 6),
    duplicates=st.booleans(),
    noisy=st.booleans(),
)
def test_later_searches_of_any_size_keep_their_promise(
    mode: str, promise: float, seed: int, n: int, k: int, b: int, duplicates: bool, noisy: bool
) -> None:
    assert held_while_h_moves(mode, seed, n, k, b, duplicates, noisy) >= promise


def held_while_h_moves(
    mode: str, seed: int, n: int, k: int, b: int, duplicates: bool, noisy: bool
) -> float:
    """Return the share of the best that searches find; they never give what is excluded."""
    _, stale, network = clustered(n, 8, seed, unit=seed % 2 == 0)
    if duplicates:
        stale = stale[torch.randint(n, (n,))]
    search = MODES[mode](TargetBuffer([stale]), network)
    held = []
    # A check comes every 8 steps: 15 of them set how much is in doubt.
    for step in range(20 if mode == "exact" else 120):
        moved(network, 0.004)
        queries = normalize(stale[torch.randint(n, (b,))] + 0.6 * normalize(torch.randn(b, 8)))
        asked = torch.arange(b)
        added = Added(step, queries, asked, gumbel_seed=seed, scale=20.0) if noisy else None
        exclude = torch.randint(-1, n, (b, 2))
        search.begin(step)
        rows = search.top_k(queries, k, exclude, added).rows
        assert all(len(set(found)) == k for found in rows.tolist())
        assert not (rows[:, :, None] == exclude[:, None, :]).any()
        literal = queries @ network(stale).T
        if noisy:
            literal = literal + gumbel(seed, 20.0, step, asked, torch.arange(n))
        for row, banned in zip(literal, exclude, strict=True):
            row[banned[banned >= 0]] = -torch.inf
        least = literal.topk(k, dim=1).values[:, -1:]  # by score: of equal ones either may stand
        held.append((literal.gather(1, rows) >= least - 1e-5).float().mean().item())
    return sum(held) / len(held)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("mode", "promise"), [("rolling", 0.99), ("ivf", 0.95)])
def test_the_promised_overlap_holds_while_h_moves(
    mode: str, promise: float, precision: Precision, unit: bool
) -> None:
    _, stale, network = clustered(2000, 32, seed=0, unit=unit)
    search = MODES[mode](Stored.of(stale, precision), network, precision=precision)
    held, untouched = [], []
    steps = 40 if mode == "rolling" else 16
    for step in range(steps):
        moved(network, 0.004)
        queries = normalize(stale[torch.randint(2000, (8,))] + 0.6 * normalize(torch.randn(8, 32)))
        search.begin(step)
        found = search.top_k(queries, 16).rows
        exact = Exact(search.buffer, network).top_k(queries, 16).rows  # type: ignore[attr-defined]
        held.append(agreement(found, exact))
        untouched.append(agreement((queries @ stale.T).topk(16).indices, exact))
    assert sum(held) / steps >= promise
    assert sum(untouched) / steps < 0.8  # so that there was something to correct
    assert search.control.reranked < 8 * 40  # type: ignore[attr-defined]  # of 8 * 2000


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("mode", ["rolling", "ivf"])
def test_a_resumed_search_goes_on_exactly(mode: str, unit: bool) -> None:
    queries, stale, network = clustered(1200, 16, seed=1, unit=unit)
    path = [moved(Corrector(16, (32,), unit=unit), 0.2).state_dict()]
    for _ in range(60):
        torch.manual_seed(len(path))
        network.load_state_dict(path[-1])
        path.append({k: v.clone() for k, v in moved(network, 0.01).state_dict().items()})

    def run(search: Search, steps: range) -> list[Tensor]:
        answers = []
        for step in steps:
            network.load_state_dict(path[step])
            search.begin(step)
            answers.append(search.top_k(queries, 20, torch.arange(9)[:, None]).rows)
        return answers

    whole = MODES[mode](TargetBuffer([stale]), network)
    expected = run(whole, range(60))
    first, stop = MODES[mode](TargetBuffer([stale]), network), 0
    while stop < 20 or first.snapshot.complete():  # type: ignore[attr-defined]
        run(first, range(stop, stop + 1))  # until it is amid a pass
        stop += 1
    state = {k: v.clone() for k, v in first.state_dict().items()}
    second = MODES[mode](TargetBuffer([stale]), network)
    second.load_state_dict(state)
    rest = run(second, range(stop, 60))
    assert all(torch.equal(a, b) for a, b in zip(rest, expected[stop:], strict=True))
    assert second.readings == whole.readings


def test_the_cells_of_a_checkpoint_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, stale, network = clustered(1200, 16, seed=1)
    buffer = TargetBuffer([stale])
    unused, first = IVF(buffer, network), IVF(buffer, network)
    before = {k: v.clone() for k, v in unused.state_dict().items()}  # of a run that never searched
    first.begin(0)
    after = {k: v.clone() for k, v in first.state_dict().items()}  # before the first pass
    expected = first.top_k(queries, 20).rows
    late = IVF(buffer, network)
    late.load_state_dict(before)
    late.begin(0)
    assert torch.equal(late.top_k(queries, 20).rows, expected)

    def refuse(*_: object) -> None:
        raise AssertionError("another machine may make other cells")

    monkeypatch.setattr(ivf, "partition", refuse)
    second = IVF(buffer, network)
    second.load_state_dict(after)
    second.begin(0)
    assert torch.equal(second.top_k(queries, 20).rows, expected)
    with pytest.raises(KeyError):  # of a version that made the cells again
        IVF(buffer, network).load_state_dict({k: v for k, v in after.items() if k != "order"})


def test_a_renewal_makes_every_row_what_h_was_when_it_began() -> None:
    queries, stale, network = clustered(5000, 16, seed=2)
    moved(network, 0.5)  # far from linear, so that renewing pays
    search = Rolling(TargetBuffer([stale]), network)
    for step in range(300):
        search.begin(step)
        search.top_k(queries, 20)
        if search.snapshot.renewed:
            break
    literal = network(stale)
    moved(network, 0.5)  # which the pass is not to see
    while not search.snapshot.complete():
        step += 1
        search.begin(step)
    assert search.snapshot.renewed == 5000
    torch.testing.assert_close(search.snapshot.stored.between(0, 5000), literal)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("mode", ["rolling", "ivf"])
def test_an_audit_is_the_overlap_with_exact_search(mode: str, noisy: bool) -> None:
    queries, stale, network = clustered(3000, 16, seed=6)
    moved(network, 0.5)
    search = MODES[mode](TargetBuffer([stale]), network)
    exclude = torch.arange(9)[:, None]
    for step in (0, 64):  # the first search is exact
        search.control.error = 0.0  # type: ignore[attr-defined]  # a wrong belief: some is missed
        asked = torch.arange(9)
        added = Added(step, queries, asked, gumbel_seed=0, scale=20.0) if noisy else None
        search.begin(step)
        assert math.isnan(search.control.audited)  # type: ignore[attr-defined]
        found = search.top_k(queries, 20, exclude, added).rows
    exact = Exact(search.buffer, network).top_k(queries, 20, exclude, added).rows  # type: ignore[attr-defined]
    held = agreement(found[:4], exact[:4])
    assert search.readings["audited"] == pytest.approx(held)
    assert held < 1


@pytest.mark.parametrize("unit", [False, True])
def test_two_versions_of_h_stand_in_one_ranking(unit: bool) -> None:
    # A vector common to all targets moves h between the versions, and must not move a ranking.
    queries, stale, network = clustered(2000, 32, seed=3, unit=unit)
    if unit:  # stale rows have no norm of h yet: it must be near 1 for them to be comparable
        network = moved(Corrector(32, (64,), unit=True), 0.03)
    search = Rolling(TargetBuffer([stale]), network)
    search.snapshot.open_pass()
    search.snapshot.renew(1000)
    with torch.no_grad():
        network.last.bias.add_((0.1 if unit else 5) * torch.randn(32))
    approximate = search._scan(search.plan_scan(Asked(queries), 20)._replace(fetch=20)).rows
    exact = Exact(TargetBuffer([stale]), network).top_k(queries, 20).rows
    assert agreement(approximate, exact) > (0.9 if unit else 0.85)
    raw = torch.cat([search.snapshot.stored.between(0, 1000), stale[1000:]])
    assert agreement((queries @ raw.T).topk(20).indices, exact) < (0.83 if unit else 0.75)


@pytest.mark.parametrize("mode", ["exact", "rolling", "ivf"])
def test_more_than_there_are_is_an_error(mode: str) -> None:
    queries, stale, network = clustered(12, 8, seed=4)
    search = MODES[mode](TargetBuffer([stale]), network)
    with pytest.raises(InputError, match="cannot take the top 64 of a buffer of 12 targets"):
        search.top_k(queries, 64)
    with pytest.raises(InputError, match="too few are not its positives"):
        search.top_k(queries, 12, torch.zeros(9, 1, dtype=torch.long))


def test_auto_says_what_and_why() -> None:
    assert choose(10**7, 384, (), 32).mode == "exact"
    assert choose(2000, 384, (1536,), 32).mode == "exact"
    rolling = choose(100_000, 384, (1536,), 32)
    assert rolling[:2] == ("rolling", "float32")
    # (2 D H + 2 H Q) / (2 D Q) = H/Q + H/D = 48 + 4
    assert "52 times those of a scan" in rolling.why
    assert choose(10**7, 384, (1536,), 32, precision="int8")[:2] == ("ivf", "int8")


@pytest.mark.parametrize("mode", ["exact", "rolling", "ivf"])
def test_make_search_builds_what_was_chosen(mode: str) -> None:
    queries, stale, network = clustered(300, 8, seed=5)
    search = make_search(Choice(mode, "int8", ""), TargetBuffer([stale]), network)  # type: ignore[arg-type]
    assert isinstance(search, MODES[mode])
    assert search.top_k(queries, 5).rows.shape == (9, 5)


def test_a_search_by_name_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    assert choose(2000, 384, (1536,), 32, mode="ivf", precision="int8")[:2] == ("ivf", "int8")
    assert "search: ivf, a snapshot in int8: as asked" in caplog.text
