"""What a report is about: the period, the lake it was made from and by whom, and the commands to go on with."""

import shlex
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pipeline.period import Period
from pipeline.terms import DEFAULT, Terms

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class About:
    """`lake` and `oversize` are paths or URIs, `stage` is the deployment's; instants are UNIX milliseconds.

    What arrived after `now` was left aside. `newest` is the last hour in which anything had arrived, as `2026-11-20/16`.
    `terms` are those of the reconciliation: the commands have to judge by the same.
    """

    period: Period
    lake: str
    now: int
    made: int
    stage: str | None = None
    oversize: str | None = None
    newest: str | None = None
    terms: Terms = DEFAULT

    @property
    def on_emr(self) -> bool:
        """Whether `replay` is the shell function of docs/operations.md, which names the lake itself."""
        return self.lake.startswith(("s3://", "s3a://"))

    @property
    def queue(self) -> str:
        """The command that finds what `replay` needs to know of the live system, where it is run by hand."""
        name = f"clarion-{self.stage or 'STAGE'}-envelopes"
        found = f'"$(aws sqs get-queue-url --queue-name {name} --output text)"'
        return f"export CLARION_ENVELOPES_QUEUE_URL={found}"

    def replay(self, **chosen: str) -> str:
        """The command that sends again what this period lost; `chosen` are options that select a part of it."""
        program = ["replay"] if self.on_emr else ["clarion-pipeline", "replay", *self._places]
        period = ["--from", _iso(self.period.start), "--to", _iso(self.period.end)]
        selected = [word for name, value in chosen.items() for word in (f"--{name}", value)]
        return shlex.join([*program, *period, *self.terms.options(), *selected])

    def explain(self, receipt: str) -> str:
        """The command that shows each step of an envelope; it reads the lake from wherever it is run."""
        words = ["clarion-pipeline", "explain", receipt, *self._places, "--from", _iso(self.period.start)]
        return shlex.join([*words, *self.terms.options("grace", "late")])

    @property
    def _places(self) -> list[str]:
        return ["--lake", self.lake, *(["--oversize", self.oversize] if self.oversize else [])]


def _iso(instant: int) -> str:
    """UTC, as the command line takes it."""
    return (_EPOCH + timedelta(milliseconds=instant)).replace(tzinfo=None).isoformat()
