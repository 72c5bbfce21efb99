"""What the demo says of its two rows."""

from unstale.cli.demo import meaning
from unstale.results import RunResult


def run(recall: float, stale: float, corrected: float | None) -> RunResult:
    last = {"step": 9, "overlap_stale": stale, "overlap_corrected": corrected}
    return RunResult(strategy="s", steps=9, metrics={"recall@10": recall}, freshness=[last])


def test_the_sentence_has_the_figures_of_the_table() -> None:
    stale, corrected = run(0.5, 0.52, None), run(0.53, 0.57, 0.92)
    said = meaning(stale, corrected)
    assert "gained 3.0 points of recall@10" in said
    # What the table shows as seen: not the 57% that the corrected run's cache held uncorrected.
    assert f"the corrected run saw {corrected.seen:.0%}" in said
    assert f"the stale run {stale.seen:.0%} in its cache" in said
    assert "lost 3.0 points" in meaning(corrected, run(0.5, 0.52, 0.9))
