"""The report as one page that needs nothing else: no script, no font, no address to load anything from."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import cycle
from string import Template
from typing import Any

from clarion.channels import CHANNELS
from pipeline import charts
from pipeline.charts import ChartSeries, number
from pipeline.period import HOUR_MS, Period, instant_text

COLOURS = dict(zip(map(str, CHANNELS), cycle(("c1", "c2", "c3", "c6", "c4", "c5")), strict=False))
"""Of the channels."""
_PERCENTILES = {"p50": "c1", "p90": "c2", "p99": "c4"}
_STAGES = {"envelope": "c5", "notification": "c2", "push": "c4"}
_SHORT_KEY, _SHORT_TEXT = 12, 24

type Row = Mapping[str, Any]
type Tables = Mapping[str, Sequence[Row]]


def page(tables: Tables, period: Period, title: str = "Clarion") -> str:
    """`tables` are those of `report`, collected, and optionally `differences`: `difference, count`."""
    sections = [
        _section("From envelope to phone", _funnel(tables), "Every envelope that was decided, and what came of it."),
        _section("Delivered, by hour", _delivered(tables, period), "Pushes that a provider took, by channel."),
        _section(
            "From observed to delivered",
            _latency(tables, period),
            "Milliseconds; of each hour the slowest channel, so that no average hides it.",
        ),
        _section("Why the rest went no further", _drops(tables), "Unmatched is how it should be: nobody had asked."),
        _section("Heaviest senders", _senders(tables), "By their keys or topics; in red what the limit held back."),
        _section("Rules in force", _rules(tables), "At each full hour."),
        _section("Dead tokens", _dead(tables, period), "Subscriptions whose provider declared the token dead."),
        _section(
            "What it cost",
            _cost(tables),
            "By the ledger: tables, messages and events, on demand; not the Lambdas' time, nor what runs all the time.",
        ),
    ]
    values = {
        "title": escape(title),
        "period": escape(str(period)),
        "tiles": _tiles(tables),
        "sections": "".join(sections),
    }
    return _PAGE.substitute(values, made=instant_text(int(datetime.now(UTC).timestamp() * 1000)))


def _section(title: str, body: str, caption: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{escape(caption)}</p>{body}</section>"


def _tiles(tables: Tables) -> str:
    staged = _stages(tables)
    p50, p99 = _overall(tables)
    dollars = sum(row["dollars"] for row in tables["cost"])
    delivered = staged["delivered"] or 1
    tiles = [
        ("envelopes", number(staged["envelopes"]), ""),
        ("delivered", number(staged["delivered"]), f"{staged['delivered'] / (staged['queued'] or 1):.1%} of queued"),
        ("median latency", f"{number(p50)} ms", f"99 % within {number(p99)} ms"),
        (
            "cost",
            f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}",
            f"${1_000_000 * dollars / delivered:,.2f} a million delivered",
        ),
    ]
    if "differences" in tables:
        found = {row["difference"]: row["count"] for row in tables["differences"]}
        words = ", ".join(f"{number(count)} {kind.replace('_', ' ')}" for kind, count in sorted(found.items()))
        tiles.append(("differences", number(sum(found.values())), words or "all went as it should"))
    cells = (f"<div><b>{value}</b><span>{name}</span><small>{words}</small></div>" for name, value, words in tiles)
    return "".join(cells)


def _funnel(tables: Tables) -> str:
    return charts.funnel([(name, value) for name, value in _stages(tables).items()])


def _stages(tables: Tables) -> dict[str, int]:
    counts = dict.fromkeys(("envelopes", "wanted", "queued", "delivered"), 0)
    for row in tables["funnel"]:
        counts[row["stage"]] += row["count"]
    return counts


def _delivered(tables: Tables, period: Period) -> str:
    rows = [row for row in tables["funnel"] if row["stage"] == "delivered"]
    return _by_channel(rows, "count", period)


def _dead(tables: Tables, period: Period) -> str:
    if not tables["dead_tokens"]:
        return '<p class="none">None.</p>'
    return _by_channel(tables["dead_tokens"], "subscriptions", period)


def _by_channel(rows: Iterable[Row], value: str, period: Period) -> str:
    counts: dict[tuple[str, int], float] = defaultdict(float)
    for row in rows:
        counts[row["channel"], row["hour"]] += row[value]
    hours = _hours(period)
    stacks = [
        ChartSeries(channel, colour, [counts[channel, hour] for hour in hours]) for channel, colour in COLOURS.items()
    ]
    return _legend(COLOURS) + charts.bars(_labels(hours), stacks)


def _latency(tables: Tables, period: Period) -> str:
    """Of each hour the worst channel, so that no average hides it."""
    hours = [hour for hour in _hours(period) if any(row["hour"] == hour for row in tables["latency"])]
    worst = [
        ChartSeries(
            name, colour, [max(row[name] for row in tables["latency"] if row["hour"] == hour) for hour in hours]
        )
        for name, colour in _PERCENTILES.items()
    ]
    rows = [
        [row["channel"], *(number(row[name]) for name in (*_PERCENTILES, "count"))] for row in tables["latency_whole"]
    ]
    table = _table(["channel", "p50 ms", "p90 ms", "p99 ms", "delivered"], rows, words=1)
    return _legend(_PERCENTILES) + charts.lines(_labels(hours), worst) + table


def _overall(tables: Tables) -> tuple[float, float]:
    """The median of the busiest channel, and the worst channel's 99th percentile."""
    rows = tables["latency_whole"]
    if not rows:
        return 0, 0
    return max(rows, key=lambda row: row["count"])["p50"], max(row["p99"] for row in rows)


def _drops(tables: Tables) -> str:
    items = [
        (
            row["decision"].replace("_", " ") + (f" · {row['reason']}" if row["reason"] else ""),
            row["count"],
            _STAGES[row["stage"]],
        )
        for row in tables["drops"][:14]
    ]
    return _legend(_STAGES) + charts.rows(items)


def _senders(tables: Tables) -> str:
    rows = [(_sender_name(row["sender"]), row) for row in tables["senders"]]
    limited = {name: row["rate_limited"] for name, row in rows}
    return charts.rows([(name, row["notifications"], "c1") for name, row in rows], limited)


def _sender_name(sender: str) -> str:
    """The first digits of a key, or the beginning of a text: keys of one network may begin alike."""
    text = bytes.fromhex(sender).decode("ascii", errors="ignore")
    is_text = 2 * len(text) == len(sender) and text.isprintable()
    return f"{text[:_SHORT_TEXT] if is_text else sender[:_SHORT_KEY]}…"


def _rules(tables: Tables) -> str:
    rows = tables["rules"]
    in_force = ChartSeries("rules", "c3", [row["rules"] for row in rows])
    return charts.lines(_labels([row["hour"] for row in rows]), [in_force], from_zero=False)


def _cost(tables: Tables) -> str:
    rows = [
        [row["stage"], row["decision"].replace("_", " "), number(row["count"]), f"${row['dollars']:,.4f}"]
        for row in tables["cost"]
        if row["dollars"] > 0
    ]
    return _table(["stage", "decision", "count", "dollars"], rows, words=2)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> str:
    """The first `words` columns are words, the others numbers."""
    kinds = ["" if place < words else ' class="n"' for place in range(len(head))]
    top = "".join(f"<th{kind}>{escape(cell)}</th>" for kind, cell in zip(kinds, head, strict=True))
    body = ("".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) for row in rows)
    return f"<table><tr>{top}</tr>{''.join(f'<tr>{row}</tr>' for row in body)}</table>"


def _hours(period: Period) -> list[int]:
    return list(range(period.start - period.start % HOUR_MS, period.end, HOUR_MS))


def _labels(hours: Iterable[int]) -> list[str]:
    return [instant_text(hour)[11:16] for hour in hours]


def _legend(colours: Mapping[str, str]) -> str:
    entries = "".join(f'<span><i class="{colour}"></i>{escape(name)}</span>' for name, colour in colours.items())
    return f'<div class="legend">{entries}</div>'


_PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title: $period</title>
<style>
:root { color-scheme: light dark; --paper: #f6f5f1; --card: #fff; --ink: #1d2327; --soft: #69727a; --rule: #e4e2dc;
  --c1: #2f6fde; --c2: #e8a33d; --c3: #1f9d78; --c4: #d6493f; --c5: #8b95a1; --c6: #8a5cd0; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181b; --card: #1d2327; --ink: #eceff1; --soft: #97a1a9;
  --rule: #313a40; --c1: #6ea0ff; --c2: #f0b95f; --c3: #45c79d; --c4: #ff7a6e; --c5: #77828d; --c6: #b592f0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 40px 24px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", sans-serif; }
header { display: flex; justify-content: space-between; align-items: baseline; flex-wrap: wrap; gap: 8px; }
h1 { font-size: 30px; letter-spacing: -0.02em; margin: 0; }
header p, section p, footer { color: var(--soft); margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(180px, 1fr)); gap: 16px; margin: 28px 0 16px; }
.tiles div, section { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; padding: 18px 20px; }
.tiles b { display: block; font-size: 28px; letter-spacing: -0.02em; line-height: 1.15; }
.tiles span { display: block; } .tiles small { color: var(--soft); }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr)); gap: 16px; }
section { min-width: 0; }
h2 { font-size: 17px; margin: 0; }
svg { display: block; width: 100%; height: auto; margin-top: 12px; font-size: 11px; }
.c1 { fill: var(--c1); background: var(--c1); } .c2 { fill: var(--c2); background: var(--c2); }
.c3 { fill: var(--c3); background: var(--c3); } .c4 { fill: var(--c4); background: var(--c4); }
.c5 { fill: var(--c5); background: var(--c5); } .c6 { fill: var(--c6); background: var(--c6); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line.c1 { stroke: var(--c1); } .line.c2 { stroke: var(--c2); } .line.c3 { stroke: var(--c3); } .line.c4 { stroke: var(--c4); }
.line { background: none; } .grid { stroke: var(--rule); } .tick { fill: var(--soft); }
.name { fill: var(--soft); font-size: 13px; } .value { fill: var(--ink); font-size: 13px; }
.big { fill: var(--ink); font-size: 24px; font-weight: 600; }
.legend { display: flex; gap: 16px; margin-top: 10px; color: var(--soft); font-size: 13px; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; }
table { border-collapse: collapse; width: 100%; margin-top: 12px; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 500; } td, th { padding: 5px 0; border-bottom: 1px solid var(--rule); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.none { padding-top: 12px; } footer { margin-top: 24px; font-size: 13px; }
</style>
<header><h1>$title</h1><p>$period UTC</p></header>
<div class="tiles">$tiles</div>
<main>$sections</main>
<footer>Made $made UTC from the lake's events. Keys are public; no push token is in the lake.</footer>
</html>
""")
