"""The story that `make demo` plays: the product document's sequence diagrams, one scene each.

A scene acts as a client would, waits for what Clarion decides and for what the providers accept, and checks both.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from clarion.clock import now_ms
from clarion.decisions import EnvelopeDecision
from clarion.messages import EnvelopeMessage
from clarion.metrics import decided
from clarion.networks import STATEMENTS
from clarion.networks.statements import codec
from local.browser import BrowserSubscription
from local.device import Device, forge, topic_of
from local.provider import Journal, ReceivedPush
from local.system import PATIENCE, System

QUIET = 0.5
"""Seconds without a push that count as none, once the decision is known."""

CHAT, CALLS = topic_of("chat of Alice and Bob"), topic_of("calls from Alice to Bob")
FLOOD = topic_of("a topic of Dave's")
WEB_CHAT = topic_of("chat of Alice and Carol in her browser")


class Unexpected(AssertionError):  # noqa: N818 - it names what was seen
    """What happened is not what the scene says should."""


@dataclass
class Cast:
    """Who takes part, and the subscriptions that the first scene makes."""

    alice: Device = field(default_factory=lambda: Device("Alice"))
    bob: Device = field(default_factory=lambda: Device("Bob"))
    carol: Device = field(default_factory=lambda: Device("Carol"))
    dave: Device = field(default_factory=lambda: Device("Dave"))
    mallory: Device = field(default_factory=lambda: Device("Mallory"))
    browser: BrowserSubscription | None = None


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


async def registration(system: System, cast: Cast) -> Outcome:
    alice, dave = cast.alice.public_key, cast.dave.public_key
    async with system.api_of(cast.bob) as bob, system.api_of(cast.carol) as carol:
        apns = await bob.register("apns", "b0b" + "a1" * 30 + "0")
        voip = await bob.register("voip", "b0b" + "c2" * 30 + "0")
        fcm = await carol.register("fcm", "carol-" + "F" * 140)
        cast.browser = system.webpush.subscribe(system.application_server_key)
        browser = await carol.register("webpush", json.dumps(cast.browser.as_json()))
        await bob.replace_rules(apns, (alice, CHAT), (dave, FLOOD))
        await bob.replace_rules(voip, (alice, CALLS))
        await carol.replace_rules(fcm, (alice, topic_of("chat of Alice and Carol")))
        await carol.replace_rules(browser, (alice, WEB_CHAT))
        outcome = [*await bob.subscriptions(), *await carol.subscriptions()]
    rules = sum(len(subscription["rules"]) for subscription in outcome)
    _expect(rules, 5, "rules listed by GET /v1/subscriptions")
    return Outcome(Counter({"subscriptions": len(outcome), "rules": rules}))


async def message(system: System, cast: Cast) -> Outcome:
    raw = cast.alice.statement(CHAT, data=b"an encrypted hello")
    outcome = await _published(system, system.apns.received, [raw], pushes=1)
    _expect(outcome.decisions, _pushed(1), "decisions")
    content = outcome.pushes[0].payload["statement"]
    _expect(bytes.fromhex(content["data"]), b"an encrypted hello", "data in the push")
    return outcome


async def call(system: System, cast: Cast) -> Outcome:
    raw = cast.alice.statement(CALLS, data=b"an encrypted call offer")
    outcome = await _published(system, system.apns.received, [raw], pushes=1)
    _expect(outcome.decisions, _pushed(1), "decisions")
    headers = outcome.pushes[0].headers
    _expect((headers["apns-push-type"], headers["apns-expiration"]), ("voip", "0"), "VoIP headers")
    return outcome


async def android(system: System, cast: Cast) -> Outcome:
    raw = cast.alice.statement(topic_of("chat of Alice and Carol"), data=b"for an Android phone")
    outcome = await _published(system, system.fcm.received, [raw], pushes=1)
    _expect(outcome.decisions, _pushed(1), "decisions")
    sent = outcome.pushes[0].payload["message"]
    _expect(bytes.fromhex(sent["data"]["statement_data"]), b"for an Android phone", "data in the push")
    return outcome


async def browser(system: System, cast: Cast) -> Outcome:
    raw = cast.alice.statement(WEB_CHAT, data=b"for a page in a browser")
    outcome = await _published(system, system.webpush.received, [raw], pushes=1)
    _expect(outcome.decisions, _pushed(1), "decisions")
    shown = [json.loads(message) for message in cast.browser.messages] if cast.browser else []
    _expect([bytes.fromhex(one["statement"]["data"]) for one in shown], [b"for a page in a browser"], "decrypted")
    return outcome


async def forgery(system: System, cast: Cast) -> Outcome:
    raw = forge(cast.alice.statement(CHAT, data=b"not from Alice"))
    outcome = await _published(system, system.apns.received, [raw], pushes=0)
    _expect(outcome.decisions, Counter({"bad_signature": 1}), "decisions")
    return outcome


async def stranger(system: System, cast: Cast) -> Outcome:
    """No rule names Mallory, so ingest drops her statement after a second look, and nothing downstream handles it."""
    unmatched, pushes = decided(EnvelopeDecision.UNMATCHED), system.apns.received.count
    before = system.counted_by_ingest(unmatched)
    await system.store.inject(cast.mallory.statement(CHAT, data=b"buy now"))
    async with asyncio.timeout(PATIENCE):
        while system.counted_by_ingest(unmatched) == before:  # noqa: ASYNC110 - what grows is another process's log
            await asyncio.sleep(QUIET)
    _expect(system.apns.received.count - pushes, 0, "pushes")
    return Outcome(Counter({"unmatched": system.counted_by_ingest(unmatched) - before}))


async def oversized(system: System, cast: Cast) -> Outcome:
    raw = cast.alice.statement(CHAT, data=bytes(3000))
    outcome = await _published(system, system.apns.received, [raw], pushes=1)
    _expect(outcome.decisions, _pushed(1), "decisions")
    _expect(outcome.pushes[0].payload["statement"]["data"], None, "data in the push")
    return outcome


async def duplicate(system: System, cast: Cast) -> Outcome:
    """A second ingest task saw the statement too, as during a take-over: another receipt, the same statement."""
    raw = cast.alice.statement(CHAT, data=b"seen twice")
    first = await _published(system, system.apns.received, [raw], pushes=1)
    _expect(first.decisions, _pushed(1), "decisions on the first sight")
    count = system.apns.received.count
    again = EnvelopeMessage(network=STATEMENTS, receipt=uuid4(), observed_at=now_ms(), raw=raw)
    await system.hand_to_match(again)
    decisions = await _decisions(system, [raw], pushes=1, notifications=2)
    _expect(decisions["duplicate"], 1, "duplicates")
    await asyncio.sleep(QUIET)
    _expect(system.apns.received.count, count, "pushes on the second sight")
    return Outcome(decisions, first.pushes, first.seconds)


async def flood(system: System, cast: Cast) -> Outcome:
    raws = [cast.dave.statement(FLOOD, data=f"message {number} of 31".encode()) for number in range(1, 32)]
    outcome = await _published(system, system.apns.received, raws, pushes=30)
    _expect(outcome.decisions, _pushed(30) + Counter({"matched": 1, "rate_limited": 1}), "decisions")
    return Outcome(outcome.decisions, outcome.pushes[:1], outcome.seconds)


STORY = (
    Scene(
        "Registration",
        "Bob's iPhone registers two tokens, Carol's Android and her browser one each; both whitelist senders.",
        registration,
    ),
    Scene("A message arrives", "Alice publishes on their chat's topic; Bob's phone wakes.", message),
    Scene("A call comes in", "Alice's call offer reaches Bob by PushKit, to ring at once.", call),
    Scene("An Android push", "Carol gets hers by FCM, as data.", android),
    Scene("A push to a browser", "Carol's web app gets one too, encrypted for her browser alone.", browser),
    Scene("A forged signature", "A node relays a statement that claims to be Alice's. It isn't.", forgery),
    Scene("An unlisted sender", "Mallory knows the topic, but nobody whitelisted her.", stranger),
    Scene("Too large for a push", "3,000 bytes fit no APNs push: Bob's app has to fetch them.", oversized),
    Scene("The same statement twice", "A second ingest task hands it in as well; it is pushed once.", duplicate),
    Scene("The 31st message in a minute", "Dave floods Bob: 30 get through, then silence for two minutes.", flood),
)


def _pushed(count: int) -> Counter[str]:
    return Counter({"matched": count, "queued": count, "delivered": count})


async def _published(system: System, journal: Journal, raws: Sequence[bytes], *, pushes: int) -> Outcome:
    """Publish through a node that relays unverified statements, and wait until every one is decided and pushed."""
    before, start = journal.count, time.time()
    for raw in raws:
        await system.store.inject(raw)
    async with asyncio.timeout(PATIENCE):
        await _until_shown(journal, before, pushes)
        decisions = await _decisions(system, raws, pushes=pushes)
    await asyncio.sleep(0 if pushes else QUIET)
    shown = _shown(journal.since(before))
    _expect(len(shown), pushes, "pushes")
    return Outcome(decisions, shown, shown[0].at - start if shown else None)


async def _until_shown(journal: Journal, before: int, pushes: int) -> None:
    seen = before
    while len(_shown(journal.since(before))) < pushes:
        await journal.until(seen + 1)
        seen = journal.count


def _shown(pushes: Iterable[ReceivedPush]) -> list[ReceivedPush]:
    """What the phones show: a push that was repeated replaces itself, and one that was refused never came."""
    accepted = (push for push in pushes if push.accepted)
    return list({push.headers.get("apns-id", push.push_id): push for push in accepted}.values())


async def _decisions(
    system: System, raws: Iterable[bytes], *, pushes: int, notifications: int | None = None
) -> Counter[str]:
    """The lake's events of these statements, once it has all of them."""
    hashes = {codec.decode(raw).hash.hex() for raw in raws}
    kinds: Counter[str] = Counter()
    async for events in system.lake.growing(PATIENCE):
        mine = [event for event in events if event.get("envelope_id") in hashes]
        kinds = Counter(event["event"] for event in mine)
        enough_notifications = notifications is None or kinds["notification"] >= notifications
        if kinds["envelope"] >= len(hashes) and kinds["push"] >= pushes and enough_notifications:
            return Counter(event["decision"] for event in mine)
    raise Unexpected(f"of {len(hashes)} statements the lake has only {dict(kinds)}")


def _expect(seen: object, expected: object, what: str) -> None:
    if seen != expected:
        raise Unexpected(f"{what}: expected {expected}, saw {seen}")
