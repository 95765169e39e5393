from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest

from servegate.domain.blocks import Figure, Point, Series
from servegate.report.figures import draw
from tests.unit.report.report_samples import NASTY


def figure(style: str, points: tuple[Point, ...], **more: object) -> Figure:
    series = tuple(Series(name=role, role=role, points=points) for role in ("baseline", "candidate", "difference", "noise"))
    return Figure.model_validate(
        {
            "name": "f",
            "title": "T",
            "style": style,
            "x_label": "x",
            "y_label": "y",
            "series": series,
            "description": "What it shows",
            **more,
        }
    )


POINTS = (Point(x=1.0, y=2.0, low=1.5, high=2.5), Point(x=8.0, y=3.0), Point(x=64.0, y=-1.0, low=-2.0, high=0.0))


@pytest.mark.parametrize("style", ["bars", "lines", "intervals"])
def test_a_drawing_is_small_clean_and_the_same_every_time(style: str) -> None:
    made = figure(style, POINTS, reference=0.0)
    drawing, reason = draw(made, "a-")
    assert reason is None
    assert drawing == draw(made, "a-")[0]
    assert drawing is not None
    assert len(drawing) < 20_000
    root = ET.fromstring(drawing)
    assert root.attrib["aria-label"] == "What it shows"
    for forbidden in ("style=", "<style", "metadata", "matplotlib", "#000000", "#010101", "<?xml", "dc:date"):
        assert forbidden not in drawing
    for role in ("baseline", "candidate", "difference", "noise"):
        assert re.search(rf"(fill|stroke)-{role}\b", drawing)


def test_ids_carry_the_prefix_and_every_reference_has_its_target() -> None:
    drawing = str(draw(figure("lines", POINTS), "b-2-")[0])
    ids = set(re.findall(r' id="([^"]+)"', drawing))
    assert ids
    assert all(name.startswith("b-2-") for name in ids)
    assert set(re.findall(r'href="#([^"]+)"', drawing)) | set(re.findall(r"url\(#([^)]+)\)", drawing)) <= ids


def test_hostile_labels_are_text_and_no_formula() -> None:
    points = tuple(Point(x=text, y=1.0) for text in NASTY)
    made = figure("bars", points, x_label=NASTY[9], y_label=NASTY[2], description=NASTY[11]).model_copy(
        update={
            "series": (
                Series(name="_hidden $x^2$", role="baseline", points=points),
                Series(name="b", role="noise", points=points[:1]),
            )
        }
    )
    drawing, reason = draw(made, "c-")
    assert reason is None
    root = ET.fromstring(str(drawing))
    texts = [element.text for element in root.iter("text")]
    assert " _hidden $x^2$" in texts
    assert {element.tag for element in root.iter()} <= {"svg", "g", "path", "defs", "use", "text", "rect", "clipPath"}


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ((), "no point"),
        ((Point(x=1.0, y=1e300),), "out of the range"),
        (tuple(Point(x=float(n), y=1.0) for n in range(401)), "too many"),
    ],
)
def test_what_cannot_be_drawn_says_why(points: tuple[Point, ...], reason: str) -> None:
    drawing, said = draw(figure("lines", points), "d-")
    assert drawing is None
    assert reason in str(said)


@pytest.mark.parametrize("style", ["bars", "lines", "intervals"])
@pytest.mark.parametrize("y", [0.0, 1e15, -1e15, 1e-300, 5e-324])
def test_extreme_values_are_drawn_or_refused(style: str, y: float) -> None:
    drawing, reason = draw(figure(style, (Point(x="a", y=y, low=y, high=y),)), "e-")
    assert (drawing is None) != (reason is None)


def test_a_long_axis_label_is_wrapped() -> None:
    label = "drop in percentage points over all questions of the task (more is worse)"
    drawing = str(draw(figure("intervals", POINTS, y_label=label), "g-")[0])
    texts = [element.text for element in ET.fromstring(drawing).iter("text")]
    assert "drop in percentage points over all questions of" in texts
    assert "the task (more is worse)" in texts


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    before = dict(mpl.rcParams)
    draw(figure("bars", POINTS), "f-")
    assert dict(mpl.rcParams) == before
