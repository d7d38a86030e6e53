"""What a command says: its result on standard output, for people or for machines; everything else on standard error."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import click
from pydantic import BaseModel, ConfigDict
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.segment import Segment
from rich.table import Table

from console.faults import Unconfirmed

UNKNOWN = "\N{EN DASH}"
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
"""All but the end of a line."""
PLAIN_WIDTH = 160
"""Columns where the output is no terminal."""


class Report(BaseModel):
    """A command's result: `__rich__` shows it to people, its JSON is for machines.

    One that is not `wrapped` keeps its lines whole, so that a command in them can be copied.
    """

    model_config = ConfigDict(frozen=True)
    wrapped: ClassVar = True

    def __rich__(self) -> RenderableType:
        raise NotImplementedError


@dataclass(frozen=True)
class Harmless:
    """A report as `printable` leaves it, in the styles that it gives itself."""

    report: Report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.report, options):
            yield segment._replace(text=printable(segment.text))


def printable(text: str) -> str:
    """Without what steers a terminal: what AWS has of names and reasons was written by others."""
    return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def show(report: Report, *, as_json: bool) -> None:
    if as_json:
        click.echo(printable(report.model_dump_json(indent=2)))
    else:
        width = None if sys.stdout.isatty() else PLAIN_WIDTH
        console = Console(highlight=False, markup=False, emoji=False, width=width)
        console.print(Harmless(report), soft_wrap=not report.wrapped)


def print_error(words: str) -> None:
    """To the person at the terminal, even if the result goes to a file."""
    click.echo(printable(words), err=True)


def confirm(question: str, *, yes: bool) -> None:
    """Raise `Unconfirmed` unless the operator agrees."""
    if yes:
        return
    try:
        agreed = click.confirm(printable(question), err=True)
    except click.Abort:
        agreed = False
    if not agreed:
        raise Unconfirmed


class Progress:
    """How far some long work has come."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None)

    def at(self, words: str, done: float = 0, of: float | None = None) -> None:
        self._bar.update(self._task, description=words, completed=done, total=of)


@contextmanager
def progress(words: str) -> Iterator[Progress]:
    """Shown on a terminal while it lasts; elsewhere `words` alone are printed."""
    console = Console(stderr=True, markup=False)
    if not console.is_terminal:
        print_error(f"» {words}")
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        shown = Progress(bar)
        shown.at(words)
        yield shown


def table(title: str | None, *columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """`numbers` are the columns whose values stand to the right."""
    made = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False, pad_edge=False
    )
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


def clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def ago(seconds: float | None) -> str:
    """A duration as people say it; a dash if it isn't known."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return str(timedelta(seconds=round(seconds)))
