"""What the doctor says: a line for each thing that it has looked at."""

from collections.abc import Callable, Iterable, Iterator

from rich.console import Group
from rich.text import Text

from console.faults import AwsError, explained
from console.output import Report

PERMISSIONS = "see that it is allowed: docs/operations.md#what-an-operator-may-do"


class Check(Report):
    """One thing, how it was found, and what to do about it; None: nothing."""

    name: str
    found: str
    todo: str | None = None

    def __rich__(self) -> Text:
        if self.todo is None:
            return Text(f"✓ {self.name}: {self.found}")
        return Text.assemble((f"! {self.name}: {self.found}", "red"), f" → {self.todo}")


class Diagnosis(Report):
    wrapped = False

    stage: str
    account: str
    region: str
    checks: list[Check]

    @property
    def todos(self) -> int:
        return sum(check.todo is not None for check in self.checks)

    def __rich__(self) -> Group:
        head = Text(f"clarion {self.stage} · account {self.account} · {self.region}", "bold")
        verdict = Text(f"! {self.todos} to do", "bold red") if self.todos else Text("nothing to do", "green")
        return Group(head, "", *self.checks, "", verdict)


def with_refusal(name: str, check: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """What `check` yields. That AWS refuses what it asks is a finding, too, and hides none of the others."""
    try:
        yield from check()
    except AwsError as error:
        yield Check(name=name, found=explained(error), todo=PERMISSIONS)
