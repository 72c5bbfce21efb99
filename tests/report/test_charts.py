"""Charts by hand: where every mark stands follows from the margins and the scales."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.report.charts import Axes, Line, Point, line_chart, scatter
from unstale.report.labels import GAP, LINE, apart, place_labels, width
from unstale.report.scales import Scale, linear, linear_up_to, symlog


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


def test_points_stand_on_a_symlog_axis_with_their_whiskers() -> None:
    points = [
        Point("none", "tone-stale", 0.0, 50.0),
        Point("some", "tone-corrected", 900.0, 55.0, whisker=(0.0, 5.0)),
        Point("most", "tone-exhaustive", 9900.0, 60.0),
    ]
    across, up = symlog([1000.0, 6600.0]), Scale(45.0, 65.0)  # unit 100, up to 1.5 * 6600
    svg = scatter(points, (260.0, 170.0), Axes("t", "x", "y"), across, up)
    # The axis has 260 - 44 - 16 = 200 pixels; 900 is halfway (log10 of 1 + 900/100 is 1 of 2).
    # Up, 45..65 takes the 100 pixels from 128 to 28: 50 stands 5 * 5 = 25 above the base.
    dots = [(d.get("cx"), d.get("cy")) for d in marks(svg, "circle", "dot")]
    assert dots == [("44.0", "103.0"), ("144.0", "78.0"), ("244.0", "53.0")]
    (whisker,) = marks(svg, "line", "whisker")
    assert [whisker.get(k) for k in ("x1", "y1", "x2", "y2")] == ["144.0", "103.0", "144.0", "53.0"]
    anchors = {t.text: t.get("text-anchor") for t in marks(svg, "text", "name")}
    assert anchors == {"none": "start", "some": "start", "most": "end"}  # no room at the right


def test_rows_of_dots_share_an_axis() -> None:
    points = [
        Point("one", "tone-stale", 20.0, 0.0, "one: 20.0"),
        Point("two", "tone-corrected", 30.0, -1.0, whisker=(10.0, 0.0)),
    ]
    across, up = Scale(20.0, 40.0, (20.0, 30.0, 40.0)), Scale(-1.5, 0.5)
    svg = scatter(points, (260.0, 170.0), Axes("t", "x"), across, up)
    # Across, 20..40 takes 260 - 44 - 16 = 200 pixels; up, a row takes 100 / 2 = 50, 28 to 128.
    dots = [(d.get("cx"), d.get("cy")) for d in marks(svg, "circle", "dot")]
    assert dots == [("44.0", "53.0"), ("144.0", "103.0")]
    (whisker,) = marks(svg, "line", "whisker")
    assert [whisker.get(k) for k in ("x1", "y1", "x2", "y2")] == ["44.0", "103.0", "244.0", "103.0"]
    assert [tick.text for tick in marks(svg, "text", "tick")] == ["20", "30", "40"]  # none upwards
    assert "<title>one: 20.0</title>" in svg


def test_a_name_is_text_in_a_chart_too() -> None:
    line = Line("<script>&\x07", "tone-other", [(0.0, 0.0), (1.0, 1.0)])
    svg = line_chart([line], (300.0, 170.0), Axes('"<', "x", "y"))
    assert "<script" not in svg
    (name,) = marks(svg, "text", "name")
    assert name.text == "<script>&U+0007"
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


def test_symlog_ticks_are_zero_and_powers_of_ten() -> None:
    scale = symlog([0.0, 19_766.0, 1_581_280.0])
    assert scale.high == 1.5 * 1_581_280
    assert scale.bend(9000.0) == 1  # unit 1,000, a tenth of 10,000: log10 of 1 + 9
    assert scale.ticks == (0, 10_000, 100_000, 1_000_000)


def test_labels_that_would_meet_move_apart() -> None:
    points = [(50.0, 54.0, "below"), (50.0, 50.0, "above"), (150.0, 52.0, "far")]
    low, high, far = place_labels(points, right=300.0, top=0.0, bottom=100.0)
    # 50 and 54 have their middle at 52: half a line above and below it.
    assert (high.y, low.y, far.y) == (52 - LINE / 2, 52 + LINE / 2, 52)
    assert low.x == 50 + GAP
    assert not low.left


def test_a_label_avoids_another_point_if_it_can() -> None:
    points = [(150.0, 50.0, "first"), (150.0 + GAP + width("first"), 50.0, "second")]
    first, second = place_labels(points, right=500.0, top=0.0, bottom=100.0)
    assert (first.left, second.left) == (True, False)
    assert first.y == second.y == 50


@given(st.lists(st.floats(0.0, 400.0), min_size=1, max_size=12))
def test_apart_keeps_order_distance_and_bounds(places: list[float]) -> None:
    moved = apart(sorted(places), 15.0, 0.0, 400.0)
    assert all(b - a >= 15 - 1e-6 for a, b in pairwise(moved))
    assert moved[0] >= -1e-6
    assert moved[-1] <= 400 + 1e-6
    if all(b - a >= 15 for a, b in pairwise(sorted(places))):
        assert moved == pytest.approx(sorted(places))  # no further than needed: not at all
