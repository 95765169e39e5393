"""A figure as a small SVG: drawn by matplotlib, coloured by the page.

Matplotlib lays out axes, intervals and labels. `svg` then takes out everything that would make two runs differ or
tie the picture to one background: colours become classes of `report.css`, so that an arm has its colour in the light
and in the dark page. Arms also differ in marker shape, for readers who do not see colours.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas

from servegate.domain.blocks import Figure
from servegate.report.svg import INK, cleaned
from servegate.report.visible import cut, visible

WIDTH_INCHES = 5.6
"""At matplotlib's 72 units per inch the drawing is 403 units wide, so that its 12-unit text is legible on a phone."""
MAX_POINTS = 400
MAX_SERIES = 12
MAX_CATEGORIES = 40
LARGEST = 1e15

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "servegate",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "axes.labelsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK["rule"],
    "axes.labelcolor": INK["muted"],
    "axes.formatter.use_mathtext": False,
    "axes.formatter.useoffset": False,
    "xtick.color": INK["muted"],
    "ytick.color": INK["muted"],
    "text.color": INK["text"],
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 12,
}
_MARKERS = {"baseline": "o", "candidate": "s", "difference": "D", "noise": "^"}


def draw(figure: Figure, prefix: str) -> tuple[Markup | None, str | None]:
    """Return the drawing as inline SVG, or `None` and the reason why the numbers cannot be drawn.

    `prefix` ([a-z0-9-]+) makes every id in the drawing unique in its page.
    """
    reason = _undrawable(figure)
    if reason:
        return None, reason
    settings: dict[Any, Any] = {**mpl.rcParamsDefault, "backend": "svg", **_STYLE}
    with warnings.catch_warnings(), mpl.rc_context(settings):
        warnings.simplefilter("ignore")  # glyphs that DejaVu lacks are drawn by the reader's own font
        stream = io.StringIO()
        canvas = _canvas(figure)
        writer: Any = FigureCanvasSVG(canvas)
        writer.print_svg(stream, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Markup(cleaned(stream.getvalue(), prefix, visible(cut(figure.description or figure.title, 2_000)))), None  # noqa: S704 - serialised by ElementTree


def _undrawable(figure: Figure) -> str | None:
    values = [
        value
        for series in figure.series
        for point in series.points
        for value in (point.y, point.low, point.high, point.x if not isinstance(point.x, str) else None)
        if value is not None
    ]
    count = sum(len(series.points) for series in figure.series)
    if not count:
        return "there is no point to draw"
    if count > MAX_POINTS or len(figure.series) > MAX_SERIES or len(_categories(figure)) > MAX_CATEGORIES:
        return f"{count:,} points in {len(figure.series):,} series are too many for one drawing"
    if any(not math.isfinite(value) or abs(value) > LARGEST for value in (*values, figure.reference or 0.0)):
        return "a value is out of the range that can be drawn"
    return None


def _canvas(figure: Figure) -> Canvas:
    upright = figure.style != "intervals"
    lines = sum(len(series.points) for series in figure.series)
    canvas = Canvas(figsize=(WIDTH_INCHES, 3.1 if upright else max(1.7, 1.1 + 0.34 * lines)), layout="constrained")
    axes = canvas.add_subplot()
    if figure.style == "intervals":
        _intervals(axes, figure)
    elif figure.style == "bars":
        _bars(axes, figure)
    else:
        _lines(axes, figure)
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis="y" if upright else "x", color=INK["rule"], linewidth=0.6)
    axes.tick_params(axis="both", which="both", labelcolor=INK["muted"])
    # Under the whole figure, since the axes of an interval plot are narrow.
    canvas.supxlabel(_wrapped(figure.x_label if upright else figure.y_label, 50), fontsize=12, color=INK["muted"])
    if upright:
        axes.set_ylabel(_wrapped(figure.y_label, 22))
    if len(figure.series) > 1:
        # Above the axes, where it hides no point.
        columns = min(len(figure.series), 3)
        canvas.legend(loc="outside upper left", ncols=columns, handlelength=1.2, columnspacing=1.4)
    return canvas


def _bars(axes: Any, figure: Figure) -> None:
    categories = _categories(figure)
    width = 0.74 / len(figure.series)
    for number, series in enumerate(figure.series):
        for place, point in ((categories.index(str(point.x)), point) for point in series.points):
            left = place - 0.37 + width * (number + 0.5)
            label = _word(series.name, 32) if point is series.points[0] else None
            axes.bar(left, point.y, width * 0.92, color=INK[series.role], label=label)
            if point.low is not None and point.high is not None:
                axes.plot([left, left], [point.low, point.high], color=INK["text"], linewidth=1.2)
    axes.set_xticks(range(len(categories)), [_word(name, 18) for name in categories])
    _slant(axes, categories)
    _reference(axes.axhline, figure)


def _lines(axes: Any, figure: Figure) -> None:
    named = any(isinstance(point.x, str) for series in figure.series for point in series.points)
    categories = _categories(figure)
    for series in figure.series:
        ordered = list(series.points) if named else sorted(series.points, key=lambda point: float(point.x))
        places = [float(categories.index(str(point.x))) if named else float(point.x) for point in ordered]
        colour = INK[series.role]
        heights = [point.y for point in ordered]
        dash = ":" if series.role == "noise" else "-"
        axes.plot(
            places,
            heights,
            dash,
            color=colour,
            linewidth=1.8,
            marker=_MARKERS[series.role],
            markersize=5.5,
            label=_word(series.name, 32),
        )
        for place, point in ((places[index], point) for index, point in enumerate(ordered)):
            if point.low is not None and point.high is not None:
                axes.plot([place, place], [point.low, point.high], color=colour, linewidth=1.2)
    if named:
        axes.set_xticks(range(len(categories)), [_word(name, 18) for name in categories])
        _slant(axes, categories)
    else:
        places = sorted({float(point.x) for series in figure.series for point in series.points})
        if len(places) <= 8:
            if len(places) > 2 and places[0] > 0 and places[-1] / places[0] >= 16:
                axes.set_xscale("log")  # 1, 8, 32, 64 would otherwise crowd at the left
                axes.minorticks_off()
            axes.set_xticks(places, [f"{place:g}" for place in places])
    values = [
        value for series in figure.series for point in series.points for value in (point.y, point.low) if value is not None
    ]
    if min(values) >= 0:
        axes.set_ylim(bottom=0)  # a cut axis would make a small difference look large
    _reference(axes.axhline, figure)


def _intervals(axes: Any, figure: Figure) -> None:
    names: list[str] = []
    for series in figure.series:
        for point in series.points:
            place = len(names)
            names.append(_word(str(point.x), 28))
            colour = INK[series.role]
            label = _word(series.name, 32) if point is series.points[0] else None
            if point.low is not None and point.high is not None:
                axes.plot([point.low, point.high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
            axes.plot(
                [point.y], [place], color=colour, marker=_MARKERS[series.role], markersize=7, linestyle="none", label=label
            )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    _reference(axes.axvline, figure)


def _reference(line: Any, figure: Figure) -> None:
    if figure.reference is not None:
        line(figure.reference, color=INK["text"], linewidth=1.0, linestyle=(0, (4, 3)))


def _categories(figure: Figure) -> list[str]:
    return list(dict.fromkeys(str(point.x) for series in figure.series for point in series.points))


def _slant(axes: Any, names: Sequence[str]) -> None:
    if sum(min(len(name), 18) for name in names) > 44:
        axes.tick_params(axis="x", labelrotation=35)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")


def _wrapped(text: str, width: int) -> str:
    """Return an axis label in at most two lines."""
    return "\n".join(textwrap.wrap(_word(text, 2 * width - 4), width))


def _word(text: str, limit: int) -> str:
    """Return a short label; a name that matplotlib hides (a leading underscore) gets a space before it."""
    shown = visible(text if len(text) <= limit else text[: limit - 1] + "…")
    return f" {shown}" if shown.startswith("_") else shown
