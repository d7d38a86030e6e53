"""Draws into docs/ what `make simulate` or `make bench-pipeline` has left in `.build/NAME.json`.

python bench/plots.py simulation|pipeline
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

ROOT = Path(__file__).parent.parent


def main(name: str) -> None:
    DRAWN[name](json.loads((ROOT / ".build" / f"{name}.json").read_text()))


def draw_simulation(found: dict[str, Any]) -> None:
    draw_loads(found, ROOT / "docs" / "scale-load.png")
    draw_crowd(found["crowd"], ROOT / "docs" / "scale-crowd.png")
    if found["check"]:
        draw_check(found["check"], ROOT / "docs" / "scale-check.png")


def draw_pipeline(found: dict[str, Any]) -> None:
    draw_statements(found, ROOT / "docs" / "pipeline-statements.png")
    draw_rules(found["rules"], found["ruled"], ROOT / "docs" / "pipeline-rules.png")


def draw_statements(found: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4))
    slope, constant = found["line"]
    statements, seconds = zip(*found["statements"], strict=True)
    ends = (0, max(statements))
    label = f"{constant:.0f} s, and {1e6 * slope:.0f} µs for each statement"
    axes.plot([end / 1e6 for end in ends], [constant + slope * end for end in ends], "--", color="grey", label=label)
    axes.plot([end / 1e6 for end in ends], [found["bare"] * end for end in ends], ":", label="bare sr25519.verify")
    axes.plot([count / 1e6 for count in statements], seconds, "o", label="reconcile, measured")
    axes.set(xlabel="statements, millions", ylabel="seconds of processors", xlim=(0, None), ylim=(0, None))
    save(figure, axes, path)


def draw_rules(points: list[tuple[int, float]], statements: int, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4))
    rules, seconds = zip(*points, strict=True)
    axes.plot(
        [count / 1e6 for count in rules], seconds, "-o", label=f"reconcile of {statements:,} statements, measured"
    )
    axes.set(xlabel="rules, millions", ylabel="seconds of processors", xlim=(0, None), ylim=(0, 1.1 * max(seconds)))
    save(figure, axes, path)


def draw_loads(found: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4))
    for name, label in (("as_deployed", "as deployed"), ("as_raised", "raised, as far as it can be deployed")):
        loads = [one["load"] for one in found[name]]
        for percentile, style in (("p50", "-o"), ("p99", "--o")):
            axes.plot(loads, [one[percentile] for one in found[name]], style, label=f"{percentile}, {label}")
    axes.set(xscale="log", yscale="log", xlabel="statements a second", ylabel="seconds from shown to accepted")
    save(figure, axes, path)


def draw_crowd(crowd: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4))
    queued = [crowd["page"] * number / 1_000_000 for number in range(1, len(crowd["queued_at"]) + 1)]
    axes.plot(crowd["queued_at"], queued, label="receivers whose push is queued, millions")
    axes.axvline(crowd["aim_s"], linestyle="--", color="grey", label="the aim")
    axes.set(xlabel="seconds", xlim=(0, crowd["aim_s"] + 10), ylim=(0, 1.05))
    save(figure, axes, path)


def draw_check(check: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4))
    for name, label in (("measured", "the emulator"), ("simulated", "the simulation")):
        seconds = check[name]
        axes.plot(seconds, [(number + 1) / len(seconds) for number in range(len(seconds))], label=label)
    axes.set(xlabel="seconds from submission to push, 50 a second", ylabel="share of the statements")
    save(figure, axes, path)


def save(figure: Any, axes: Any, path: Path) -> None:
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    # Without the date, so that the same figures make the same file.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


DRAWN = {"simulation": draw_simulation, "pipeline": draw_pipeline}

if __name__ == "__main__":
    main(sys.argv[1])
