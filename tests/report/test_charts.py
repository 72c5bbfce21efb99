"""Charts by hand: where every mark stands follows from the margins and the scales."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.report.charts import Axes, Dot, Line, apart, dot_chart, line_chart
from unstale.report.scales import linear, linear_up_to


def marks(svg: str, tag: str, kind: str) -> list[ElementTree.Element]:
    found = ElementTree.fromstring(svg).iter(tag)  # fails if the SVG is not well-formed
    return [e for e in found if kind in e.get("class", "").split()]


def test_a_line_goes_where_its_values_say() -> None:
    line = Line(
        "a",
        "tone-stale",
        [(0.0, 0.0), (5.0, 2.5), (10.0, 10.0)],
        [(0.0, 0.0, 0.0), (10.0, 5.0, 10.0)],
    )
    svg = line_chart([line], (200.0, 170.0), Axes("t", "step", "KL"))
    # Across: from the left margin 44 to 200 - (8.2 for "a" + 8) = 183.8, so 5 is at 113.9.
    # Up: the axis is 0..10, from 170 - 42 = 128 up to 28, so 2.5 is at 128 - 25 = 103.
    (path,) = marks(svg, "polyline", "line")
    assert path.get("points") == "44.0,128.0 113.9,103.0 183.8,28.0"
    (band,) = marks(svg, "polygon", "band")  # low edge there, high edge back; 5 is at 78
    assert band.get("points") == "44.0,128.0 183.8,78.0 183.8,28.0 44.0,128.0"
    (name,) = marks(svg, "text", "name")  # beside the end, its middle on the line's height
    assert (name.get("x"), name.get("y"), name.text) == ("191.8", "32.0", "a")


def test_rows_of_dots_share_an_axis() -> None:
    dots = [Dot("one: 20.0", "tone-stale", 20.0), Dot("two", "tone-corrected", 30.0, whisker=10.0)]
    svg = dot_chart(dots, 260.0, Axes("t", "x"))
    # Across, 20..40 takes 260 - 44 - 16 = 200 pixels; up, a row takes 32, its dot at seven tenths
    # of it, from the margin 28 on: 28 + 0.7 * 32 = 50.4.
    found = [(d.get("cx"), d.get("cy")) for d in marks(svg, "circle", "dot")]
    assert found == [("44.0", "50.4"), ("144.0", "82.4")]
    (whisker,) = marks(svg, "line", "whisker")
    assert [whisker.get(k) for k in ("x1", "y1", "x2", "y2")] == ["44.0", "82.4", "244.0", "82.4"]
    ticks = [tick.text for tick in marks(svg, "text", "tick")]
    assert ticks == ["20", "25", "30", "35", "40"]  # none upwards
    assert [name.text for name in marks(svg, "text", "name")] == ["one: 20.0", "two"]


def test_a_line_that_ends_early_is_led_to_its_name() -> None:
    lines = [
        Line("b", "tone-stale", [(0.0, 0.0), (10.0, 10.0)]),
        Line("a", "tone-corrected", [(0.0, 0.0), (5.0, 9.0)]),
    ]
    svg = line_chart(lines, (200.0, 170.0), Axes("t", "step", "KL"))
    names = {name.text: name for name in marks(svg, "text", "name")}
    assert names["a"].get("x") == names["b"].get("x") == "191.8"
    # The ends are at 28 and 38: 15 apart, the second moves to 43, and its text 4 lower.
    assert (names["b"].get("y"), names["a"].get("y")) == ("32.0", "47.0")
    (leader,) = marks(svg, "line", "leader")
    assert [leader.get(k) for k in ("x1", "y1", "y2")] == ["117.9", "38.0", "43.0"]


def test_a_name_is_text_in_a_chart_too() -> None:
    line = Line("<script>&\x07", "tone-other", [(0.0, 0.0), (1.0, 1.0)])
    svg = line_chart([line], (300.0, 170.0), Axes('"<', "x", "y"))
    assert "<script" not in svg
    (name,) = marks(svg, "text", "name")
    assert name.text == "<script>&[U+0007]"
    assert ElementTree.fromstring(svg).get("aria-label") == '"<'


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0, 100.0], [0, 50, 100]),  # 100 / 4 is 25, the next round step 50
        ([41.0, 59.0], [40, 45, 50, 55, 60]),
        ([0.012, 0.031], [0.01, 0.015, 0.02, 0.025, 0.03, 0.035]),
        ([50.0, 50.0], [46, 48, 50, 52, 54]),  # one value: a twentieth on both sides, 47.5..52.5
        ([0.0, 0.0], [-1, -0.5, 0, 0.5, 1]),
    ],
)
def test_ticks_are_round_and_hold_the_values(values: list[float], ticks: list[float]) -> None:
    assert linear(values).ticks == pytest.approx(ticks)


def test_an_axis_up_to_a_value_ends_there() -> None:
    scale = linear_up_to(230.0)
    assert scale.ticks == (0, 100, 200)
    assert scale(230.0) == 1
    assert linear_up_to(0.0).ticks[0] == 0


@given(st.lists(st.floats(0.0, 400.0), min_size=1, max_size=12))
def test_apart_keeps_order_distance_and_bounds(places: list[float]) -> None:
    moved = apart(sorted(places), 15.0, 400.0)
    assert all(b - a >= 15 - 1e-6 for a, b in pairwise(moved))
    assert moved[0] >= -1e-6
    assert moved[-1] <= 400 + 1e-6
    if all(b - a >= 15 for a, b in pairwise(sorted(places))):
        assert moved == pytest.approx(sorted(places))  # no further than needed: not at all
