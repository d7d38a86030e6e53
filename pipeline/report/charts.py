"""Charts as inline SVG by pygal, for narrow columns: at 348 pixels their text is as large as the page's.

Of what pygal writes, the shapes and their texts are kept. Scripts, styles and comments are not: the page has the styles,
by the classes that pygal gives to what it draws, and `SERIES` names the colours.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Comment, Element, SubElement

import pygal
from markupsafe import Markup
from pygal.style import Style

WIDTH, HEIGHT = 348, 200
SERIES = ("c1", "c2", "c3", "c4", "c5", "c6")
"""The classes of the page's colours."""
_TEXT = 13
_TICKS = 4
_LABELS = 4
_LEFT_OUT = (Comment, "defs", "title")


class ChartSeries(NamedTuple):
    """One value for each label, None where there is none; `colour` is one of `SERIES`."""

    name: str
    colour: str
    values: Sequence[float | None]


def bars(name: str, axis: str, labels: Sequence[str], series: Sequence[ChartSeries]) -> Markup:
    """A bar for each label, the series stacked from the bottom. `axis` says what the labels are."""
    totals = [sum(value or 0 for value in values) for values in zip(*(one.values for one in series), strict=True)]
    chart = pygal.StackedBar(range=(0, max(1, *totals)), **_settings(axis, labels))
    return _rendered(chart, name, labels, series)


def lines(
    name: str, axis: str, labels: Sequence[str], series: Sequence[ChartSeries], ends: tuple[float, float]
) -> Markup:
    """A line for each series, interrupted where there is no value. `ends` are those of the vertical axis."""
    low, high = ends
    chart = pygal.Line(range=(low, max(low + 1, high)), allow_interruptions=True, **_settings(axis, labels))
    return _rendered(chart, name, labels, series)


def number(value: float) -> str:
    """Short, for people: 950, 12.4k, 3.1M."""
    for size, suffix in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if value >= size:
            scaled = value / (1_000 if suffix == "k" else size)
            digits = f"{scaled:.2f}" if scaled < 10 else f"{scaled:.1f}"
            return digits.rstrip("0").rstrip(".") + suffix
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.2f}"


def _settings(axis: str, labels: Sequence[str]) -> dict[str, object]:
    sizes = {f"{what}_font_size": _TEXT for what in ("label", "major_label", "title")}
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "style": Style(**sizes),
        "css": (),
        "js": (),
        "margin": 6,
        # Half of the last label.
        "margin_right": 18,
        "spacing": 6,
        "no_prefix": True,
        "show_legend": False,
        "x_title": axis,
        "show_minor_x_labels": False,
        "x_labels_major_every": -(-len(labels) // _LABELS) if len(labels) > 2 * _LABELS else 1,
        "truncate_label": -1,
        "value_formatter": number,
        "min_scale": 2,
        "max_scale": _TICKS,
        "order_min": 0,
    }


def _rendered(chart: pygal.Graph, name: str, labels: Sequence[str], series: Sequence[ChartSeries]) -> Markup:
    chart.x_labels = labels
    for one in series:
        chart.add(one.name, one.values)
    chart.add_xml_filter(lambda root: _bare(root, name, series))
    return Markup(chart.render(is_unicode=True, disable_xml_declaration=True))  # noqa: S704 - the library has escaped it


def _bare(root: Element, name: str, series: Sequence[ChartSeries]) -> Element:
    """Without what the page has itself. Each value is the title of its shape, so that it shows under a pointer."""
    del root.attrib["xmlns"], root.attrib["id"]
    root.attrib |= {"role": "img", "aria-label": name}
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in _LEFT_OUT or child.get("class") == "plot tooltip-overlay":
                parent.remove(child)
        parent.set("class", re.sub(r"color-(\d+)", lambda found: series[int(found[1])].colour, parent.get("class", "")))
        _name_value(parent)
    return root


def _name_value(shape: Element) -> None:
    notes = {note.get("class"): note for note in shape.findall("desc")}
    for note in notes.values():
        shape.remove(note)
    if "value" in notes:
        label = notes["x_label"].text if "x_label" in notes else ""
        SubElement(shape, "title").text = f"{label}: {notes['value'].text}"
