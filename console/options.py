"""What several commands have in common on the command line: the types of their words, and their options."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, override

import click

from console import deployment
from console.faults import Exit

KEY_BYTES = 32


class Hex(click.ParamType[bytes]):
    """32 bytes, with or without 0x. What isn't is not repeated: it may be a push token."""

    name = "hex"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        try:
            given = bytes.fromhex(str(value).removeprefix("0x"))
        except ValueError:
            given = b""
        if len(given) != KEY_BYTES:
            self.fail("is not 32 bytes in hex", param, ctx)
        return given


class Stage(click.ParamType[str]):
    name = "stage"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not deployment.STAGE.fullmatch(str(value)):
            self.fail("is no stage such as prod", param, ctx)
        return str(value)


class Ago(click.ParamType[timedelta]):
    """A duration, such as 30m, 24h or 7d."""

    name = "duration"
    units = {"m": "minutes", "h": "hours", "d": "days"}  # noqa: RUF012 - never changed

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        number, unit = str(value)[:-1], str(value)[-1:]
        if unit not in self.units or not number.isdecimal():
            self.fail("is no duration such as 30m, 24h or 7d", param, ctx)
        return timedelta(**{self.units[unit]: int(number)})


class Instant(click.ParamType[datetime]):
    """An ISO 8601 time; UTC unless it says otherwise."""

    name = "time"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            given = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        except ValueError:
            self.fail("is no time such as 2026-11-20T18:30 (UTC)", param, ctx)
        return given if given.tzinfo else given.replace(tzinfo=UTC)


type Command = Callable[..., Exit]

_stage = click.option("--stage", type=Stage(), help="Which deployment; needed only where an account has several.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
yes_option = click.option("--yes", is_flag=True, help="Don't ask.")


def options(*own: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Those of every command after its own."""

    def add(function: Command) -> Command:
        made, every = function, list[Callable[[Command], Command]]((*own, _stage, _json))
        for option in reversed(every):
            made = option(made)
        return made

    return add
