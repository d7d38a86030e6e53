"""Charts as inline SVG: a few shapes, no script, no address to load anything from. Colours come from the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 26
_TICKS = 4
_LABELS = 8
_ROW = 30
_BAR = 330


@dataclass(frozen=True)
class ChartSeries:
    """One value for each label; `colour` is a class of the page's, `c1` to `c6`."""

    name: str
    colour: str
    values: Sequence[float]


def bars(labels: Sequence[str], stacks: Sequence[ChartSeries], unit: str = "") -> str:
    """A bar for each label, the series stacked from the bottom."""
    totals = [sum(values) for values in zip(*(series.values for series in stacks), strict=True)]
    top = _ceiling(max(totals, default=0))
    step = _plot_width() / max(1, len(labels))
    shapes = []
    for place, label in enumerate(labels):
        below = 0.0
        for series in stacks:
            value = series.values[place]
            height = _plot_height() * value / top
            y = TOP + _plot_height() - below - height
            title = f"{label} · {series.name}: {number(value)}{unit}"
            shapes.append(_rect((LEFT + place * step + step * 0.12, y, step * 0.76, height), series.colour, title))
            below += height
    return _svg(_grid(top, unit) + _axis(labels) + "".join(shapes), f"{', '.join(one.name for one in stacks)} by hour")


def lines(labels: Sequence[str], series: Sequence[ChartSeries], unit: str = "", *, from_zero: bool = True) -> str:
    """A line for each series, with a point for each label."""
    values = [value for one in series for value in one.values]
    least, most = min(values, default=0), max(values, default=0)
    base, top = (0.0, _ceiling(most)) if from_zero else _close_up(least, most)
    step = _plot_width() / max(1, len(labels))
    shapes = []
    for one in series:
        points = [
            (LEFT + (place + 0.5) * step, TOP + _plot_height() * (1 - (value - base) / (top - base)))
            for place, value in enumerate(one.values)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        shapes.append(f'<polyline class="line {one.colour}" points="{path}"/>')
        shapes += [
            f'<circle class="{one.colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(label)} · {escape(one.name)}: '
            f"{number(value)}{unit}</title></circle>"
            for label, value, (x, y) in zip(labels, one.values, points, strict=True)
        ]
    name = f"{', '.join(one.name for one in series)} by hour"
    return _svg(_grid(top, unit, base) + _axis(labels) + "".join(shapes), name)


def rows(items: Sequence[tuple[str, float, str]], parts: Mapping[str, float] | None = None) -> str:
    """Horizontal bars: `(label, value, colour)`; of some, a `part` by label is set off in the colour `c4`."""
    top = max((value for _, value, _ in items), default=0) or 1
    shapes = []
    for place, (label, value, colour) in enumerate(items):
        y = place * _ROW
        width = _BAR * value / top
        shapes.append(f'<text class="name" x="226" y="{y + 19}" text-anchor="end">{escape(label)}</text>')
        shapes.append(_rect((236, y + 6, max(width, 1.5), 18), colour, f"{label}: {number(value)}"))
        part = (parts or {}).get(label, 0)
        if part:
            shapes.append(
                _rect((236, y + 6, _BAR * part / top, 18), "c4", f"{label}: {number(part)} of {number(value)}")
            )
        figures = f"{number(value)}" + (f" · {number(part)} limited" if part else "")
        shapes.append(f'<text class="value" x="{236 + max(width, 1.5) + 8:.1f}" y="{y + 19}">{figures}</text>')
    return _svg("".join(shapes), "bars", max(1, len(items)) * _ROW + 4)


def funnel(stages: Sequence[tuple[str, float]]) -> str:
    """Blocks that narrow from stage to stage, each with its share of the one before."""
    top = max((value for _, value in stages), default=0) or 1
    each = WIDTH / max(1, len(stages))
    shapes = []
    heights = [max(150 * value / top, 3) for _, value in stages]
    for place, (name, value) in enumerate(stages):
        x, height = place * each, heights[place]
        after = heights[place + 1] if place + 1 < len(stages) else height
        middle = 95
        points = (
            f"{x + 4:.1f},{middle - height / 2:.1f} {x + each - 4:.1f},{middle - after / 2:.1f} "
            f"{x + each - 4:.1f},{middle + after / 2:.1f} {x + 4:.1f},{middle + height / 2:.1f}"
        )
        shapes.append(f'<polygon class="c1" opacity="{1 - 0.18 * place:.2f}" points="{points}"/>')
        shapes.append(f'<text class="big" x="{x + 10:.1f}" y="200">{number(value)}</text>')
        share = f" · {value / stages[place - 1][1]:.1%}" if place and stages[place - 1][1] else ""
        shapes.append(f'<text class="name" x="{x + 10:.1f}" y="220">{escape(name)}{share}</text>')
    return _svg("".join(shapes), "funnel", 230)


def number(value: float) -> str:
    """Short, for people: 950, 12.4k, 3.1M."""
    for size, suffix in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if value >= size:
            scaled = value / (1_000 if suffix == "k" else size)
            digits = f"{scaled:.2f}" if scaled < 10 else f"{scaled:.1f}"
            return digits.rstrip("0").rstrip(".") + suffix
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.2f}"


def _plot_width() -> float:
    return WIDTH - LEFT - RIGHT


def _plot_height() -> float:
    return HEIGHT - TOP - BOTTOM


def _ceiling(value: float) -> float:
    """The next round number, so that the grid's lines are round as well."""
    if value <= 0:
        return 1
    size = 10.0 ** floor(log10(value))
    return next(step * size for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * size >= value)


def _close_up(low: float, high: float) -> tuple[float, float]:
    """Bottom and top of an axis for lines that hardly move: round steps, with the lines well inside."""
    step = _ceiling(max((high - low) / (_TICKS - 2), high / 1_000, 1))
    base = max(0.0, floor(low / step) * step - step)
    return base, base + _TICKS * step


def _grid(top: float, unit: str, base: float = 0) -> str:
    shapes = []
    for tick in range(_TICKS + 1):
        y = TOP + _plot_height() * (1 - tick / _TICKS)
        figure = number(base + (top - base) * tick / _TICKS)
        shapes.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        shapes.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{figure}{unit}</text>')
    return "".join(shapes)


def _axis(labels: Sequence[str]) -> str:
    step = _plot_width() / max(1, len(labels))
    every = max(1, -(-len(labels) // _LABELS))
    return "".join(
        f'<text class="tick" x="{LEFT + (place + 0.5) * step:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(label)}</text>'
        for place, label in enumerate(labels)
        if place % every == 0
    )


def _rect(box: tuple[float, float, float, float], colour: str, title: str) -> str:
    """`box` is x, y, width, height."""
    x, y, width, height = box
    return (
        f'<rect class="{colour}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="1.5">'
        f"<title>{escape(title)}</title></rect>"
    )


def _svg(shapes: str, name: str, height: float = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(name)}">{shapes}</svg>'
