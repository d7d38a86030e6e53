"""A demo that can't go on says so in a line, and one that is only slow goes on."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local import lake_copy, pipeline_demo
from local.lake_copy import LakeCopy, until_idle


class Queues:
    """A deployed stack whose queue holds so many messages each time somebody looks, the last number from then on."""

    def __init__(self, counts: Iterator[int]) -> None:
        self._counts, self._last = counts, 0
        self.lake: Any = self

    def messages(self) -> dict[str, int]:
        self._last = next(self._counts, self._last)
        return {"envelopes": self._last} if self._last else {}

    def files(self) -> int:
        return 1


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("QUIET_S", 0.02), ("STUCK_S", 0.2), ("POLL_S", 0.01)):
        monkeypatch.setattr(lake_copy, name, seconds)


def waited(system: Any) -> None:
    asyncio.run(until_idle(system))


@pytest.mark.usefixtures("patience")
def test_a_stack_that_is_slow_is_waited_for_as_long_as_it_goes_on() -> None:
    waited(Queues(iter(range(60, -1, -1))))


@pytest.mark.usefixtures("patience")
def test_a_stack_in_which_nothing_moves_is_given_up() -> None:
    with pytest.raises(TimeoutError, match=r"nothing has moved, with .* in flight: \{'envelopes': 3\}"):
        waited(Queues(iter([5, 4, 3])))


def test_what_a_demo_is_given_up_for_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where a job of it fails, which has said why."""
    monkeypatch.setattr(lake_copy, "PIPELINE", Path("/bin/false"))
    monkeypatch.setattr(pipeline_demo, "LAKE", LakeCopy(tmp_path / "lake"))
    assert pipeline_demo.main() == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("given up: Command '['/bin/false', 'generate', ")
    assert line.endswith("returned non-zero exit status 1.")
