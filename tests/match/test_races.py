"""Workers that race for a pair, by courses drawn at random; `make crash` tries many more."""

import pytest

from tests.match import races
from tests.match.scene import credentials

SEEDS = range(80)


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in credentials().items():
        monkeypatch.setenv(name, value)


def test_however_many_workers_race_no_window_holds_more_than_the_limit() -> None:
    tried = races.run(SEEDS)
    assert [race.flaws for race in tried if race.flaws] == []
    assert sum(race.lost for race in tried) > 2 * len(SEEDS)


def test_a_write_that_overlooks_what_came_between_is_noticed() -> None:
    assert any(race.flaws for race in races.run(SEEDS[:20], lax=True))
