"""What the scenes of a story have in common: what they show, and how they wait for it."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from clarion.decisions import PushDecision
from local.cast import Cast
from local.lake import LakeEvent
from local.provider import Journal, ReceivedPush
from local.system import PATIENCE, System

QUIET = 0.5
"""Seconds without a push that count as none, once the decision is known."""


class Unexpected(AssertionError):  # noqa: N818 - it names what was seen
    """What happened is not what the scene says should."""


@dataclass(frozen=True)
class Outcome:
    """What a scene has to show: the decisions taken, the pushes as the phones got them, and how long the first took."""

    decisions: Counter[str]
    pushes: Sequence[ReceivedPush] = ()
    seconds: float | None = None


@dataclass(frozen=True)
class Scene:
    title: str
    plot: str
    play: Callable[[System, Cast], Awaitable[Outcome]]


def shown_by_phones(pushes: Iterable[ReceivedPush]) -> list[ReceivedPush]:
    """A push that was repeated replaces itself, and one that was refused never came."""
    accepted = (push for push in pushes if push.accepted)
    return list({push.headers.get("apns-id", push.push_id): push for push in accepted}.values())


async def until_shown(journal: Journal, before: int, pushes: int) -> None:
    seen = before
    while len(shown_by_phones(journal.since(before))) < pushes:
        await journal.until(seen + 1)
        seen = journal.count


async def decisions_on(
    system: System, envelope_ids: Collection[str], *, pushes: int, notifications: int | None = None
) -> Counter[str]:
    """The lake's events of these envelopes, once it has all of them, without attempts that had no answer in time."""
    kinds: Counter[str] = Counter()
    async for events in system.lake.growing(PATIENCE):
        mine = [event for event in events if event.get("envelope_id") in envelope_ids and not _unanswered(event)]
        kinds = Counter(event["event"] for event in mine)
        enough_notifications = notifications is None or kinds["notification"] >= notifications
        if kinds["envelope"] >= len(envelope_ids) and kinds["push"] >= pushes and enough_notifications:
            return Counter(event["decision"] for event in mine)
    raise Unexpected(f"of {len(envelope_ids)} envelopes the lake has only {dict(kinds)}")


def _unanswered(event: LakeEvent) -> bool:
    """Whether this is an attempt to push that failed by no answer: of a stand-in, that a busy machine gave it too late."""
    return event["event"] == "push" and event["decision"] == PushDecision.RETRY and "status" not in event


def expect(seen: object, expected: object, what: str) -> None:
    if seen != expected:
        raise Unexpected(f"{what}: expected {expected}, saw {seen}")
