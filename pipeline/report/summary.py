"""What a report says first: whether the period went well, and how many of the wanted notifications were delivered."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import floor
from typing import Any

from pipeline.findings import REPAIRABLE, Difference
from pipeline.terms import SECRET, UNREAD_ENVELOPES

type Row = Mapping[str, Any]
type Tables = Mapping[str, Sequence[Row]]
"""Those of `report`, and `hours` and `limits`, by name."""

STAGES = {
    "asked": "asked for by a rule",
    "wanted": "wanted, by limits and claims too",
    "queued": "queued for a push",
    "tried": "tried",
    "delivered": "delivered to the provider",
}
"""The stages of a notification, each a part of the one before."""
WRONG = {
    Difference.MISSING: "missing",
    Difference.WRONGLY_DROPPED: "wrongly dropped",
    Difference.UNEXPECTED: "pushed against rules or limits (unexpected)",
    Difference.LATE: "late",
}
MEANING = {
    Difference.MISSING: "Should have been pushed and was lost on the way. Send it again.",
    Difference.WRONGLY_DROPPED: "Should have been pushed and was refused without a reason. Send it again.",
    Difference.UNEXPECTED: "Was pushed or queued though nobody should have got it. It can't be taken back.",
    Difference.LATE: "Came too late to be of use. There is nothing to send again.",
}


class DayVerdict(StrEnum):
    WRONG = "wrong"
    NOT_COMPARED = "not compared"
    INCOMPLETE = "incomplete"
    UNREAD = "unread"
    PROVISIONAL = "provisional"
    EMPTY = "empty"
    HEALTHY = "healthy"


_HEADLINES = {
    DayVerdict.NOT_COMPARED: "Not reconciled: nobody knows what is missing",
    DayVerdict.INCOMPLETE: "{incomplete} of {hours} hours can't be judged",
    DayVerdict.UNREAD: "{unread:,} large envelopes were not read",
    DayVerdict.PROVISIONAL: "Nothing went wrong so far",
    DayVerdict.EMPTY: "Nothing came in, and nothing was missed",
    DayVerdict.HEALTHY: "All went as it should",
}
_SEALED = "Each of the {hours} hours of arrival is sealed, and "
_GROUNDS = {
    DayVerdict.WRONG: f"{_SEALED}reconcile found no other difference.",
    DayVerdict.NOT_COMPARED: "Run reconcile, or daily, for this period first.",
    DayVerdict.INCOMPLETE: "No difference was found in what is there. What is missing from the lake can't be compared.",
    DayVerdict.UNREAD: "No difference was found in the others. Reconcile again with --oversize: it says where these lie.",
    DayVerdict.PROVISIONAL: "Provisional: {open} of {hours} hours are not over yet.",
    DayVerdict.EMPTY: f"{_SEALED}no envelope was decided in any.",
    DayVerdict.HEALTHY: f"{_SEALED}reconcile found no difference.",
}
_MORE = "More may be wrong than is known, or less, and replay sends nothing until the lake has all of these hours."


@dataclass(frozen=True)
class Summary:
    """`wrong` counts the differences of each kind, the most frequent first; None if nobody has compared.

    `incomplete` are those of the `hours` of which the lake doesn't have everything, `open` those that were judged though
    more may arrive. Of `secret` notifications, by network, a secret condition alone says what was right; `unread`
    envelopes are too large for a message, and were not read.
    """

    reached: Mapping[str, int]
    envelopes: int
    wrong: Mapping[Difference, int] | None
    hours: int
    incomplete: int
    open: int
    secret: Mapping[str, int]
    unread: Mapping[str, int]

    @property
    def verdict(self) -> DayVerdict:
        if self.wrong is None:
            return DayVerdict.NOT_COMPARED
        if self.incomplete:
            return DayVerdict.INCOMPLETE
        if self.wrong:
            return DayVerdict.WRONG
        if self.unread:
            return DayVerdict.UNREAD
        if self.open:
            return DayVerdict.PROVISIONAL
        return DayVerdict.HEALTHY if self.envelopes or self.reached["asked"] else DayVerdict.EMPTY

    @property
    def headline(self) -> str:
        if self.verdict is DayVerdict.WRONG:
            kind, count = next(iter((self.wrong or {}).items()))
            return f"{notifications(count)} {WRONG[kind]}"
        words = _HEADLINES[self.verdict]
        return words.format(incomplete=self.incomplete, hours=self.hours, unread=sum(self.unread.values()))

    @property
    def beside(self) -> str:
        """What else was found than the headline says; empty if that is all."""
        found = [f"{count:,} {WRONG[kind]}" for kind, count in (self.wrong or {}).items()]
        others = found[1:] if self.verdict is DayVerdict.WRONG else found
        return f"And {', '.join(others)}." if others else ""

    @property
    def grounds(self) -> str:
        """What the verdict rests on, or what is still open."""
        words = _GROUNDS[self.verdict]
        if self.wrong and (self.incomplete or self.open):
            words = _MORE if self.incomplete else _GROUNDS[DayVerdict.PROVISIONAL]
        if self.verdict is DayVerdict.HEALTHY and self.reached["delivered"] < self.reached["wanted"]:
            words += " What was not delivered was refused by its provider, or its token was dead."
        return words.format(hours=self.hours, incomplete=self.incomplete, open=self.open)

    @property
    def repairable(self) -> int:
        return sum((self.wrong or {}).get(kind, 0) for kind in REPAIRABLE)

    @property
    def delivered(self) -> str:
        done, wanted = self.reached["delivered"], self.reached["wanted"]
        if not wanted:
            return "No notification was wanted."
        return f"{done:,} of {notifications(wanted, 'wanted ')} delivered: {percent(done, wanted)}."

    @property
    def not_judged(self) -> str:
        """What nobody can judge; empty if that is nothing."""
        reasons = {
            "a secret condition alone says what was right": self.secret,
            "they are too large for a message and were not read": self.unread,
        }
        return " ".join(f"Not judged, since {why}: {_named(counts)}." for why, counts in reasons.items() if counts)


def summarise(tables: Tables) -> Summary:
    hours = tables.get("hours", ())
    return Summary(
        reached={stage: sum(row[stage] for row in tables["notifications"]) for stage in STAGES},
        envelopes=sum(row["count"] for row in tables["cost"] if row["stage"] == "envelope"),
        wrong=_wrong(tables["differences"]) if "differences" in tables else None,
        hours=len(hours),
        incomplete=sum(row["problem"] is not None for row in hours),
        open=sum(row["problem"] is None and row["sealed_at"] is None for row in hours),
        secret={row["network"]: row["notifications"] for row in tables.get(SECRET, ())},
        unread={row["network"]: row["envelopes"] for row in tables.get(UNREAD_ENVELOPES, ())},
    )


def _named(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} of {network}" for network, count in counts.items())


def notifications(count: int, adjective: str = "") -> str:
    return f"{count:,} {adjective}notification{'' if count == 1 else 's'}"


def percent(part: int, whole: int) -> str:
    """Rounded down, so that 100% is all."""
    return f"{floor(1_000 * part / whole) / 10:.1f}%"


def _wrong(rows: Sequence[Row]) -> dict[Difference, int]:
    counts = Counter[Difference]()
    for row in rows:
        counts[Difference(row["difference"])] += row["count"]
    return dict(counts.most_common())
