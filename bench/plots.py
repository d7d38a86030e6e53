"""Draws what `make simulate` has left in `.build/simulation.json` into docs/: `make simulate-plots`."""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

ROOT = Path(__file__).parent.parent


def main() -> None:
    found = json.loads((ROOT / ".build" / "simulation.json").read_text())
    draw_loads(found, ROOT / "docs" / "scale-load.png")
    draw_crowd(found["crowd"], ROOT / "docs" / "scale-crowd.png")
    if found["check"]:
        draw_check(found["check"], ROOT / "docs" / "scale-check.png")


def draw_loads(found: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4))
    for name, label in (("as_deployed", "as deployed"), ("as_raised", "with what docs/scale.md asks for")):
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


if __name__ == "__main__":
    main()
