"""Lets a scenario end badly at every AWS call in turn, in every way, and asks each time whether all came right."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tests.crash.wire import Ending, Point, Stopped, wire

MAX_DELIVERIES = 30
RETURN = "return"
"""The step at which the work is done and the queue still has the message."""


class Run(Protocol):
    """One go of a scenario, in a world of its own."""

    def deliver(self) -> bool:
        """Do the work once, in a process of its own, as the queue or the caller would ask for it.

        Returns whether it is done; otherwise it is asked for again.
        """

    def stop(self) -> None:
        """The process is gone, and with it what it remembered; the next delivery finds a new one."""

    def check(self) -> None:
        """Raises `AssertionError`, saying what is wrong with the outcome."""


class Scenario(NamedTuple):
    name: str
    begin: Callable[[], Run]


@dataclass(frozen=True)
class Failure:
    scenario: str
    point: Point
    call: str
    flaw: str

    def __str__(self) -> str:
        return f"{self.scenario}: {self.call} (call {self.point.number}) {self.point.ending}: {self.flaw}"


def calls(scenario: Scenario) -> list[str]:
    """What the scenario calls when all goes well."""
    run = scenario.begin()
    with wire.watched() as called:
        finish(run)
    run.check()
    return called


def points(called: list[str]) -> list[Point]:
    return [Point(number, ending) for number, name in enumerate(called) for ending in _endings(name)]


def _endings(name: str) -> tuple[Ending, ...]:
    return (Ending.STOPPED_BEFORE,) if name == RETURN else tuple(Ending)


def survives(scenario: Scenario, point: Point) -> Failure | None:
    """Whether all came right although that call ended badly and what was not done was asked for again."""
    run = scenario.begin()
    with wire.watched(point) as called:
        try:
            finish(run)
            with wire.aside():
                run.check()
        except AssertionError as flaw:
            return Failure(scenario.name, point, _name(called, point), str(flaw))
    if point.number >= len(called):
        return Failure(scenario.name, point, _name(called, point), "it never came to this call")
    return None


def _name(called: list[str], point: Point) -> str:
    return called[point.number] if point.number < len(called) else "nothing"


def finish(run: Run) -> None:
    for _ in range(MAX_DELIVERIES):
        try:
            done = run.deliver()
        except Stopped:
            wire.revive()
            run.stop()
            continue
        if done:
            return
    raise AssertionError(f"not done after {MAX_DELIVERIES} deliveries")
