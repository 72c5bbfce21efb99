"""The planner's arithmetic, by hand, and its command."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from unstale.cli.main import main
from unstale.miners import find_strategy
from unstale.plan.cost import (
    Job,
    Rates,
    choose,
    correct_flops,
    costs,
    disk,
    rerank_flops,
    scan_flops,
    step_flops,
)

JOB = Job(
    targets=1000,
    dim=10,
    hidden=20,
    batch=4,
    negatives=2,
    parameters=100.0,
    target_flops=50.0,
    query_flops=5.0,
    steps=100,
    refreshes=8,
)
LARGE = replace(JOB, targets=10_000)  # where staged mines
ONE = Rates(1.0, 1.0, 1.0, 1.0, 1.0, fixed=100.0)


def test_operations_by_hand() -> None:
    assert JOB.candidates == 4 * 3
    assert step_flops(JOB, 12) == 3 * (4 * 5 + 12 * 50)
    assert scan_flops(JOB) == 2 * 1000 * 10 * 4
    # In: 2 x 10 x 20 a target; out: 2 x 20 x 10.
    assert correct_flops(JOB) == 1000 * (2 * 10 * 20 + 2 * 20 * 10)
    assert disk(JOB)["buffer"] == 1000 * 10 * 4
    assert disk(replace(JOB, buffer_bytes=1))["buffer"] == 1000 * (10 + 4)  # and a scale each


def test_a_search_with_cells_holds_a_copy_in_the_precision_of_the_buffer() -> None:
    exact, ivf = (
        next(c for c in costs(replace(JOB, buffer_bytes=1), ONE)
             if (c.strategy, c.search) == ("corrected", search))
        for search in ("exact", "ivf")
    )  # fmt: skip
    assert ivf.memory - exact.memory == 1000 * (10 + 4) + 1000 * (4 + 8 + 4)  # norm, order, cell


def test_a_stale_step_is_encoding_scan_and_update() -> None:
    stale = next(c for c in costs(JOB, ONE) if c.strategy == "stale")
    assert stale.flops == step_flops(JOB, 12) + scan_flops(JOB)
    assert stale.seconds == stale.flops + 100  # whatever the candidates
    assert stale.memory == 4 * 1000 * 10 + 16 * 100 + 2 * 4 * 12 * 10
    assert stale.embedding == 1000 * 50
    exhaustive = next(c for c in costs(JOB, ONE) if c.strategy == "exhaustive")
    assert exhaustive.embedding == 9 * stale.embedding  # once, and 8 refreshes
    assert exhaustive.run == 100 * stale.seconds + 9 * stale.embedding


def test_what_a_step_takes_anyway_does_not_shrink_with_the_candidates() -> None:
    in_batch = next(c for c in costs(JOB, ONE) if c.strategy == "in-batch")
    assert in_batch.seconds == 3 * (4 * 5 + 4 * 50) + 100  # 4 labels are the candidates


def test_a_rolling_search_scans_the_buffer_once_and_reranks() -> None:
    found = {c.strategy: c for c in costs(LARGE, ONE) if c.search == "rolling"}
    assert set(found) == {"corrected", "staged"}
    rolling, staged = found["corrected"], found["staged"]
    searched, network = scan_flops(LARGE) + rerank_flops(LARGE), 2 * 10 * 20 + 20 + 10
    assert rolling.flops == step_flops(LARGE, 12) + 6 * 12 * network + searched
    # The latter mines on half of the steps, for a quarter of the queries, 4 targets for each.
    encoded = 4 + 0.5 * 4
    held = replace(LARGE, targets=1024)  # it embeds no more in 100 steps of 4 pairs
    searched = scan_flops(held) + rerank_flops(held)
    mined = 0.5 * 0.25 * (6 * encoded * network + searched)
    assert staged.flops == pytest.approx(3 * (4 * 5 + encoded * 50) + mined)


def test_staged_embeds_a_target_for_each_pair_of_the_run() -> None:
    job = replace(LARGE, steps=500)  # of 4 pairs each
    found = {c.strategy: c for c in costs(job, ONE) if c.search == "exact"}
    assert found["corrected"].embedding == 10_000 * 50
    assert found["staged"].embedding == 2000 * 50


def test_staged_embeds_nothing_where_mining_does_not_pay_and_all_of_static_embeddings() -> None:
    plain = next(c for c in costs(JOB, ONE) if c.strategy == "in-batch")
    for small in (JOB, replace(LARGE, static=True)):
        few = next(c for c in costs(small, ONE) if c.strategy == "staged")
        assert (few.flops, few.embedding, few.memory) == (plain.flops, 0, plain.memory)
    many = replace(JOB, targets=60_000, static=True)
    found = {c.strategy: c for c in costs(many, ONE) if c.search == "exact"}
    assert found["staged"].embedding == found["corrected"].embedding == 60_000 * 50


def test_an_exact_search_runs_h_over_everything() -> None:
    exact = next(c for c in costs(JOB, ONE) if (c.strategy, c.search) == ("corrected", "exact"))
    learnt = 6 * 12 * (2 * 10 * 20 + 20 + 10)
    assert exact.flops == step_flops(JOB, 12) + learnt + 2 * scan_flops(JOB) + correct_flops(JOB)


def test_devices_share_rows_and_work_but_not_weights() -> None:
    one, four = (
        next(c for c in costs(replace(JOB, devices=n), ONE) if c.strategy == "stale")
        for n in (1, 4)
    )
    assert four.memory == one.memory - 0.75 * 4 * 1000 * 10
    assert four.traffic == 4 * (4 * 10 + 100) + 2 * 4 * 12 * 10
    assert one.traffic == 0
    assert four.flops == one.flops


def test_what_does_not_fit_is_not_chosen() -> None:
    found = costs(replace(LARGE, steps=2500), ONE)  # so long that staged holds all targets
    best = choose(found, None)
    assert best is not None
    assert best.strategy == "staged"
    assert choose(found, 10.0) is None
    lean = choose(found, next(c.memory for c in found if c.strategy == "stale") + 1)
    assert lean is not None
    assert lean.strategy == "exhaustive"  # only the bare buffer fits


def test_the_command_calibrates_and_writes(
    bert_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--targets", "5000", "--batch-size", "4", "--target-tokens", "8", "--device", "cpu"]
    flags += ["--model", str(bert_folder), "--layers", "1", "--corrector-hidden", "16"]
    assert main(["plan", *flags, "--output", str(tmp_path / "plan.json")]) == 0
    printed = capsys.readouterr().out
    assert "choose: staged" in printed
    assert "run: the embedding and 10,000 steps (set yours with --steps" in printed
    assert "the same work varied by up to" in printed
    assert "on devices with" in printed  # as this machine: --device-memory was not given
    found = json.loads((tmp_path / "plan.json").read_text())
    assert found["rates"].pop("fixed") >= 0
    assert all(rate > 0 for rate in found["rates"].values())
    assert all(cost["seconds"] > 0 for cost in found["costs"])
    flags[1] = "5000000000000"  # a petabyte: only a part of it can be held
    assert main(["plan", *flags]) == 0
    assert "choose: staged" in capsys.readouterr().out
    assert main(["plan", *flags, "--device-memory", "0.000001"]) == 0
    assert "nothing fits" in capsys.readouterr().out
    assert main(["plan", "--targets", "0"]) == 2
    assert main(["plan", "--flops", "1e12"]) == 2


@pytest.mark.parametrize(
    ("old", "advice"),
    [("--memory", "did you mean --device-memory?"), ("--refresh", "use --refreshes N")],
)
def test_flags_that_were_renamed_are_refused_with_their_new_names(old, advice, capsys) -> None:
    assert main(["plan", old, "80"]) == 2  # `train --memory` is another thing
    assert advice in capsys.readouterr().err


def test_a_strategy_is_priced_by_what_it_does_alone() -> None:
    # Four negatives, a corrector, refreshes: none of today's strategies is like it.
    reads = ("corrector_hidden", "refreshes")
    both = replace(find_strategy("corrected"), name="both", reads=reads)
    (cost,) = costs(replace(JOB, negatives=4), ONE, [both])
    assert (cost.strategy, cost.search) == ("both", "exact")
    assert cost.embedding == 9 * 1000 * 50
    trained, network = 3 * (4 * 5 + 20 * 50), 2 * 10 * 20 + 20 + 10  # 4 x (1 + 4) candidates
    assert cost.flops == trained + 6 * 20 * network + 2 * scan_flops(JOB) + correct_flops(JOB)
