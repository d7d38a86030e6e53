"""The story that `make demo` plays: the product documents' sequence diagrams, one scene each.

A scene acts as a client would, waits for what Clarion decides and for what the providers accept, and checks both.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from uuid import uuid4

from clarion.clock import now_ms
from clarion.decisions import EnvelopeDecision
from clarion.messages import EnvelopeMessage
from clarion.metrics import decided
from clarion.networks import STATEMENTS
from clarion.networks.statements import codec
from local.cast import Cast
from local.device import forge, topic_of
from local.provider import Journal
from local.scenes import QUIET, Outcome, Scene, decisions_on, expect, shown_by_phones, until_shown
from local.simplex_story import a_new_token, a_server_restarts, now_and_then, two_queues
from local.system import PATIENCE, System
from local.walletconnect.story import a_dapp_notifies, forged_expired_and_replayed
from local.xmtp_story import a_friends_message, a_reaction, ones_own_message, the_rollover
from local.zulip_story import a_dead_token, a_new_bouncer_key, an_outage, two_realms

CHAT, CALLS = topic_of("chat of Alice and Bob"), topic_of("calls from Alice to Bob")
FLOOD = topic_of("a topic of Dave's")
WEB_CHAT = topic_of("chat of Alice and Carol in her browser")


async def registration(system: System, cast: Cast) -> Outcome:
    alice, dave = cast.alice.public_key, cast.dave.public_key
    await system.register(cast.bob, "apns", "b0b" + "a1" * 30 + "0", (alice, CHAT), (dave, FLOOD))
    await system.register(cast.bob, "voip", "b0b" + "c2" * 30 + "0", (alice, CALLS))
    await system.register(cast.carol, "fcm", "carol-" + "F" * 140, (alice, topic_of("chat of Alice and Carol")))
    cast.browser = system.webpush.subscribe(system.application_server_key)
    await system.register(cast.carol, "webpush", json.dumps(cast.browser.as_json()), (alice, WEB_CHAT))
    async with system.api_of(cast.bob) as bob, system.api_of(cast.carol) as carol:
        outcome = [*await bob.list_subscriptions(), *await carol.list_subscriptions()]
    rules = sum(len(subscription["rules"]) for subscription in outcome)
    expect(rules, 5, "rules listed by GET /v1/subscriptions")
    return Outcome(Counter({"subscriptions": len(outcome), "rules": rules}))


async def message(system: System, cast: Cast) -> Outcome:
    raw = cast.alice.statement(CHAT, data=b"an encrypted hello")
    outcome = await _published(system, system.apns.received, [raw], pushes=1)
    expect(outcome.decisions, _pushed(1), "decisions")
    content = outcome.pushes[0].payload["statement"]
    expect(bytes.fromhex(content["data"]), b"an encrypted hello", "data in the push")
    return outcome


async def call(system: System, cast: Cast) -> Outcome:
    raw = cast.alice.statement(CALLS, data=b"an encrypted call offer")
    outcome = await _published(system, system.apns.received, [raw], pushes=1)
    expect(outcome.decisions, _pushed(1), "decisions")
    headers = outcome.pushes[0].headers
    expect((headers["apns-push-type"], headers["apns-expiration"]), ("voip", "0"), "VoIP headers")
    return outcome


async def android(system: System, cast: Cast) -> Outcome:
    raw = cast.alice.statement(topic_of("chat of Alice and Carol"), data=b"for an Android phone")
    outcome = await _published(system, system.fcm.received, [raw], pushes=1)
    expect(outcome.decisions, _pushed(1), "decisions")
    sent = outcome.pushes[0].payload["message"]
    expect(bytes.fromhex(sent["data"]["statement_data"]), b"for an Android phone", "data in the push")
    return outcome


async def browser(system: System, cast: Cast) -> Outcome:
    raw = cast.alice.statement(WEB_CHAT, data=b"for a page in a browser")
    outcome = await _published(system, system.webpush.received, [raw], pushes=1)
    expect(outcome.decisions, _pushed(1), "decisions")
    shown = [json.loads(message) for message in cast.browser.messages] if cast.browser else []
    expect([bytes.fromhex(one["statement"]["data"]) for one in shown], [b"for a page in a browser"], "decrypted")
    return outcome


async def forgery(system: System, cast: Cast) -> Outcome:
    raw = forge(cast.alice.statement(CHAT, data=b"not from Alice"))
    outcome = await _published(system, system.apns.received, [raw], pushes=0)
    expect(outcome.decisions, Counter({"bad_signature": 1}), "decisions")
    return outcome


async def stranger(system: System, cast: Cast) -> Outcome:
    """No rule names Mallory, so ingest drops her statement after a second look, and nothing downstream handles it."""
    unmatched, pushes = decided(EnvelopeDecision.UNMATCHED), system.apns.received.count
    before = system.counted_by_ingest(unmatched)
    await system.store.inject(cast.mallory.statement(CHAT, data=b"buy now"))
    async with asyncio.timeout(PATIENCE):
        while system.counted_by_ingest(unmatched) == before:  # noqa: ASYNC110 - what grows is another process's log
            await asyncio.sleep(QUIET)
    expect(system.apns.received.count - pushes, 0, "pushes")
    return Outcome(Counter({"unmatched": system.counted_by_ingest(unmatched) - before}))


async def oversized(system: System, cast: Cast) -> Outcome:
    raw = cast.alice.statement(CHAT, data=bytes(3000))
    outcome = await _published(system, system.apns.received, [raw], pushes=1)
    expect(outcome.decisions, _pushed(1), "decisions")
    expect(outcome.pushes[0].payload["statement"]["data"], None, "data in the push")
    return outcome


async def duplicate(system: System, cast: Cast) -> Outcome:
    """A second ingest task saw the statement too, as during a take-over: another receipt, the same statement."""
    raw = cast.alice.statement(CHAT, data=b"seen twice")
    first = await _published(system, system.apns.received, [raw], pushes=1)
    expect(first.decisions, _pushed(1), "decisions on the first sight")
    count = system.apns.received.count
    again = EnvelopeMessage(network=STATEMENTS, receipt=uuid4(), observed_at=now_ms(), raw=raw)
    await system.hand_to_match(again)
    decisions = await _decisions(system, [raw], pushes=1, notifications=2)
    expect(decisions["duplicate"], 1, "duplicates")
    await asyncio.sleep(QUIET)
    expect(system.apns.received.count, count, "pushes on the second sight")
    return Outcome(decisions, first.pushes, first.seconds)


async def flood(system: System, cast: Cast) -> Outcome:
    raws = [cast.dave.statement(FLOOD, data=f"message {number} of 31".encode()) for number in range(1, 32)]
    outcome = await _published(system, system.apns.received, raws, pushes=30)
    expect(outcome.decisions, _pushed(30) + Counter({"matched": 1, "rate_limited": 1}), "decisions")
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
    Scene(
        "XMTP: a friend's message",
        "Alix has the app on two devices, Bo on one; all subscribe to their group. Bo writes, and both of Alix's wake.",
        a_friends_message,
    ),
    Scene(
        "XMTP: one's own message",
        "Alix writes on one device. Bo's wakes; neither of Alix's does, by the HMAC.",
        ones_own_message,
    ),
    Scene("XMTP: a reaction", "Bo sends a heart, which Bo's app says needs no push: nobody wakes.", a_reaction),
    Scene(
        "XMTP: the rollover of a period",
        "Clocks disagree on which thirty days it is, in either direction: own messages still wake no own device, "
        "a friend's wake both, and hearts nobody.",
        the_rollover,
    ),
    Scene(
        "Zulip: two realms of one server",
        "A self-hosted server notifies an iPhone in one realm and an Android phone in another: neither server nor bouncer "
        "knows all, and the phones alone can read it.",
        two_realms,
    ),
    Scene(
        "Zulip: a dead token",
        "APNs says that the app is gone. The server learns it by its cron job; the app comes back with a new token.",
        a_dead_token,
    ),
    Scene(
        "Zulip: a new bouncer key",
        "The operator makes a key for the app's next release; phones with that one and the one before both register.",
        a_new_bouncer_key,
    ),
    Scene(
        "Zulip: the bouncer is away",
        "A registration meets an outage, an error, and two lost answers: the server tries again, and one device is there.",
        an_outage,
    ),
    Scene(
        "WalletConnect: a dapp notifies three accounts",
        "Alice wants promotions, Bob only alerts, and Carol has unsubscribed. Alice's phone wakes, her wallet opens what "
        "the push brings, and its receipt tells the operator so.",
        a_dapp_notifies,
    ),
    Scene(
        "WalletConnect: forged, expired, replayed",
        "Somebody would unsubscribe Alice, or bring back what she once asked for. Nothing of it counts: she is notified "
        "as ever.",
        forged_expired_and_replayed,
    ),
    Scene(
        "SimpleX: two queues in one push",
        "A phone registers, gets its code by a silent push, and has two queues followed. Two contacts write: one push has "
        "both, sealed twice, and neither Clarion nor Apple can read who wrote.",
        two_queues,
    ),
    Scene(
        "SimpleX: another device token",
        "iOS has given the phone a new token. What arrives before that one is verified is pushed right after.",
        a_new_token,
    ),
    Scene(
        "SimpleX: an SMP server restarts",
        "It has forgotten who follows its queues. Clarion comes back, and what waited there reaches the phone.",
        a_server_restarts,
    ),
    Scene(
        "SimpleX: now and then",
        "The user saves battery: nobody follows the queue any more, and the phone is woken to look itself.",
        now_and_then,
    ),
)


def _pushed(count: int) -> Counter[str]:
    return Counter({"matched": count, "queued": count, "delivered": count})


async def _published(system: System, journal: Journal, raws: Sequence[bytes], *, pushes: int) -> Outcome:
    """Publish through a node that relays unverified statements, and wait until every one is decided and pushed."""
    before, start = journal.count, time.time()
    for raw in raws:
        await system.store.inject(raw)
    async with asyncio.timeout(PATIENCE):
        await until_shown(journal, before, pushes)
        decisions = await _decisions(system, raws, pushes=pushes)
    await asyncio.sleep(0 if pushes else QUIET)
    shown = shown_by_phones(journal.since(before))
    expect(len(shown), pushes, "pushes")
    return Outcome(decisions, shown, shown[0].at - start if shown else None)


async def _decisions(
    system: System, raws: Iterable[bytes], *, pushes: int, notifications: int | None = None
) -> Counter[str]:
    hashes = {codec.decode(raw).hash.hex() for raw in raws}
    return await decisions_on(system, hashes, pushes=pushes, notifications=notifications)
