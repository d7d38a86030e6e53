"""Each part of `make bench` with tiny inputs, in a process of its own, or from results that are made up."""

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from bench import ingest, match
from bench.all import PAGE, PARTS, measured
from bench.dispatch import CLARION, OTHERS, SCENES, Speed, compared
from bench.figures import Figure, compare, shown, table
from bench.latency import RATE, Latency, PushTimes
from bench.pace import figures_of
from bench.simplex import Borne, borne
from tests.ledger.bill import AMOUNTS_TABLE
from tests.ledger.whole_bill import beside_naive

COST_PAGE = PAGE.parent / "cost.md"
TINY: dict[str, Callable[[], list[Figure]]] = {
    "bench.codec": lambda: measured("bench.codec", 1),
    "bench.match": lambda: measured("bench.match", match.Effort(1, 1, 1, 1, 1)),
    "bench.ingest": lambda: measured("bench.ingest", ingest.Sizes(100, 100, 100, 100, 1, 1)),
    "bench.schedule": lambda: measured("bench.schedule", 10, 1),
    "bench.dispatch": lambda: compared({scene: dict.fromkeys((CLARION, *OTHERS), Speed(2, 1)) for scene in SCENES}),
    "bench.simplex": lambda: Borne(1_000, 2.0, 1.0, 2.0, 1.0).figures(),
    "tests.ledger.whole_bill": lambda: beside_naive(AMOUNTS_TABLE.read(COST_PAGE.read_text())),
    "bench.pace": lambda: figures_of(Latency(RATE, 2, {"ingest": 0.1}, 2, [PushTimes(0, 1, 2, 3)] * 2), 100),
}


@pytest.fixture(scope="module")
def figures() -> list[Figure]:
    return [figure for part in PARTS for figure in TINY[part]()]


def test_the_page_has_the_rows_that_make_bench_makes(figures: list[Figure]) -> None:
    assert rows(PAGE) == [(figure.name, figure.unit) for figure in figures]


def rows(page: Path) -> list[tuple[str, str]]:
    """The name and the unit of each figure."""
    return re.findall(r"^\| (.+?) (?:\| [\d.,-]+ ){3}\| (.+) \|$", page.read_text(), re.MULTILINE)


def test_each_figure_has_a_unit_and_a_name_of_its_own(figures: list[Figure]) -> None:
    assert all(figure.unit for figure in figures)
    assert len({figure.name for figure in figures}) == len(figures)


def test_a_name_says_what_the_figure_stands_beside(figures: list[Figure]) -> None:
    for figure in figures:
        assert (figure.anchor is not None) == (figure.ratio is not None) == (" beside " in figure.name), figure.name


def test_a_figure_is_written_as_the_contract_names_its_members() -> None:
    assert asdict(Figure.beside("push, beside another", 6.0, 4.0, "pushes/s")) == {
        "name": "push, beside another",
        "ours": 6.0,
        "anchor": 4.0,
        "ratio": 1.5,
        "unit": "pushes/s",
    }


def test_a_table_has_a_dash_where_nothing_is_compared() -> None:
    assert table(
        [Figure.beside("push, beside another", 12_345.6, 8.0, "pushes/s"), Figure.alone("wait", 2.0, "ms")]
    ) == [
        "| figure | Clarion | anchor | ratio | unit |",
        "| --- | --: | --: | --: | --- |",
        "| push, beside another | 12,346 | 8.00 | 1,543 | pushes/s |",
        "| wait | 2.00 | - | - | ms |",
    ]


@pytest.mark.parametrize(
    ("value", "digits"),
    [(0, "0.00"), (0.01234, "0.0123"), (1.1, "1.10"), (99.94, "99.9"), (99.96, "100"), (1e6, "1,000,000")],
)
def test_a_value_is_shown_with_three_digits(value: float, digits: str) -> None:
    assert shown(value) == digits


def test_the_same_beside_itself_has_both_times() -> None:
    figure = compare("sort, beside the same", lambda: sorted(range(100)), lambda: sorted(range(100)), turns=3)
    assert figure.ours > 0
    assert figure.anchor
    assert figure.ratio
    assert figure.unit == "µs"


def test_no_scene_is_hidden() -> None:
    calm, *_, last = SCENES
    speeds = {scene: dict.fromkeys(OTHERS, Speed(100, 1)) | {CLARION: Speed(200, 1)} for scene in SCENES}
    speeds[last][CLARION] = Speed(50, 1)
    ratios = {figure.name: figure.ratio for figure in compared(speeds)}
    for other in OTHERS:
        assert ratios[f"push ({calm.name}), beside {other.name}"] == 2
        assert ratios[f"push ({last.name}), beside {other.name}"] == 0.5


def test_what_takes_more_than_it_may_is_named() -> None:
    within = [Figure.beside(name, 1.3, 1, "") for name in (ingest.LOOK_UPS, ingest.SHARED)]
    beyond = [Figure.beside(ingest.FILTER_MEMORY, 31, 30, ""), Figure.beside(ingest.SHARED, 1.1, 1, "")]
    assert list(ingest.beyond([*within, *beyond])) == [ingest.FILTER_MEMORY, ingest.SHARED]


def test_a_task_of_the_ntf_server_is_measured_with_agents_of_its_own() -> None:
    found = borne(connections=3, subscriptions=3)
    assert found.agents == 3
    assert min(found.handshakes_s, found.commands_s, found.memory_mb) > 0
    assert not Borne(3, 1e9, 0.0, 1e9, 301.0).is_enough
    assert not Borne(3, 99.0, 0.0, 1e9, 1.0).is_enough
    assert Borne(3, 100.0, 0.0, 1e9, 300.0).is_enough
