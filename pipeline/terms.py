"""What is judged by, and how the command line says it."""

from dataclasses import dataclass

from pipeline.period import HOUR_MS

_OPTIONS = {
    "grace": ("--grace-seconds", 1_000),
    "late": ("--late-seconds", 1_000),
    "lookback": ("--lookback-hours", HOUR_MS),
}
"""Those of `pipeline.arguments`, and their units in milliseconds."""


@dataclass(frozen=True)
class Terms:
    """What to judge by; spans are milliseconds.

    `grace`: so close to a change of rules or limits, or to an envelope's expiry, either decision is right, since clocks
    differ and changes reach ingest late. `late`: a delivery that took longer is a difference. `lookback` is how far back
    decisions are read for their claims, if the day before has no snapshot of them.
    """

    grace: int = 15_000
    late: int = 60_000
    lookback: int = 24 * HOUR_MS

    def options(self, *names: str) -> list[str]:
        """The words of the command line that say those of `names`, or of all, which are not as by default."""
        values = {name: getattr(self, name) for name in names or _OPTIONS}
        others = {name: value for name, value in values.items() if value != getattr(DEFAULT, name)}
        return [word for name, value in others.items() for word in _words(value, *_OPTIONS[name])]


DEFAULT = Terms()


def _words(value: int, option: str, unit: int) -> tuple[str, str]:
    return option, str(value // unit)
