"""One statement's way, as the lake has it."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.events import EnvelopeDecided, EnvelopeObserved, NotificationDecided, PushTried
from clarion.networks import STATEMENTS, XMTP, network
from clarion.networks.statements import codec
from clarion.networks.statements.rules import key_of
from console import explain
from console.lake import hours_back
from local.device import Device, topic_of
from tests.console.account import LAKE, Account, Clarion
from tests.xmtp import Inbox

CHAT = topic_of("why")
RAW = Device("Alice asks why").statement(CHAT, data=b"hello")
HASH = codec.decode(RAW).hash
ALICE, BOB = b"a" * 32, b"b" * 32
KEY = key_of(ALICE, CHAT)
NOW = datetime.now(UTC)
"""Of the tests' events; the command's own is a moment later."""


class Way:
    """What the components record of one receipt, each a tenth of a second after the other."""

    def __init__(self, began: datetime = NOW, receipt: UUID | None = None) -> None:
        self.receipt = receipt or uuid4()
        self.began = int(began.timestamp() * 1000)
        self.at = self.began

    def _next(self) -> int:
        self.at += 100
        return self.at

    def observed(self, **content: Any) -> EnvelopeObserved:
        content = content or {"raw": RAW}
        return EnvelopeObserved(
            network=STATEMENTS, at=self._next(), receipt=self.receipt, observed_at=self.began, **content
        )

    def envelope(self, decision: EnvelopeDecision, reason: str | None = None) -> EnvelopeDecided:
        known = {
            "network": STATEMENTS,
            "receipt": self.receipt,
            "envelope_id": HASH,
            "observed_at": self.began,
            "sender": ALICE,
        }
        return EnvelopeDecided(at=self._next(), decision=decision, reason=reason, **known)

    def notification(self, to: UUID, decision: NotificationDecision, client: bytes = BOB) -> NotificationDecided:
        known = {"network": STATEMENTS, "receipt": self.receipt, "envelope_id": HASH, "sender": ALICE, "key": KEY}
        channel = Channel.APNS
        return NotificationDecided(
            at=self._next(), decision=decision, subscription_id=to, client_id=client, channel=channel, **known
        )

    def push(self, to: UUID, decision: PushDecision, attempt: int = 1, **others: Any) -> PushTried:
        at = self._next()
        known = {"network": STATEMENTS, "receipt": self.receipt, "envelope_id": HASH, "channel": Channel.APNS}
        return PushTried(
            at=at, decision=decision, subscription_id=to, attempt=attempt, latency_ms=at - self.began, **known, **others
        )


MATCHED, QUEUED = EnvelopeDecision.MATCHED, NotificationDecision.QUEUED


type Why = Callable[..., Any]


@pytest.fixture
def why(clarion: Clarion) -> Why:
    """What `--json` answers."""

    def why(*words: str) -> Any:
        return json.loads(clarion("why", "--envelope", HASH.hex(), "--json", *words).out)

    return why


def whats(answer: Any) -> list[list[str]]:
    return [[step["what"] for step in trace["steps"]] for trace in answer["traces"]]


def test_every_decision_and_attempt_is_told_in_order_with_its_time(why: Why, account: Account) -> None:
    way, bobs = Way(), uuid4()
    account.write_to_lake(way.observed())
    account.write_to_lake(way.envelope(MATCHED), way.notification(bobs, QUEUED), zipped=False)
    account.write_to_lake(
        way.push(bobs, PushDecision.RETRY, 1, status=503, reason="ServiceUnavailable"),
        way.push(bobs, PushDecision.DELIVERED, 2, status=200, provider_id="apns-id"),
    )

    (trace,) = why()["traces"]

    assert (trace["receipt"], trace["sender"]) == (str(way.receipt), ALICE.hex())
    steps = [
        (step["what"], step["after_ms"], step["attempt"], step["status"], step["reason"]) for step in trace["steps"]
    ]
    assert steps == [
        ("observed", 0, None, None, None),
        ("matched", 200, None, None, None),
        ("queued", 300, None, None, None),
        ("retry", 400, 1, 503, "ServiceUnavailable"),
        ("delivered", 500, 2, 200, None),
    ]
    assert all(step["client_id"] == BOB.hex() for step in trace["steps"][2:])


def test_people_get_a_table_and_what_the_end_means(clarion: Clarion, account: Account) -> None:
    way, bobs = Way(), uuid4()
    account.write_to_lake(way.observed(), way.envelope(MATCHED), way.notification(bobs, QUEUED))
    account.write_to_lake(way.push(bobs, PushDecision.TOKEN_GONE, status=410, reason="Unregistered"))

    ended = clarion("why", "--envelope", f"0x{HASH.hex()}")

    assert ended.code == 0
    assert "attempt 1, status 410, reason Unregistered" in ended.out
    assert "token_gone: the provider says that the token is dead; the device has to register again" in ended.out


def test_an_envelope_of_xmtp_is_found_by_its_id_and_its_decisions_are_explained(
    clarion: Clarion, account: Account
) -> None:
    raw, at = Inbox(b"alix").message(NOW.timestamp()), int(NOW.timestamp() * 1000)
    envelope = network(XMTP).decode(raw)
    known = {"network": XMTP, "receipt": uuid4(), "envelope_id": envelope.id, "sender": envelope.sender}
    about = {"client_id": BOB, "channel": Channel.FCM, "key": envelope.keys[0]}
    words = (NotificationDecision.OWN_MESSAGE, NotificationDecision.NOT_PUSHABLE)
    account.write_to_lake(
        EnvelopeObserved(network=XMTP, at=at, receipt=known["receipt"], observed_at=at, raw=raw),
        EnvelopeDecided(at=at + 1, decision=MATCHED, observed_at=at, **known),
        *(
            NotificationDecided(at=at + 2 + place, decision=word, subscription_id=UUID(int=place), **known, **about)
            for place, word in enumerate(words)
        ),
    )

    answer = json.loads(clarion("why", "--envelope", envelope.id.hex(), "--json").out)

    assert whats(answer) == [["observed", "matched", "own_message", "not_pushable"]]
    assert [ending.partition(":")[0] for ending in answer["summary"]] == ["own_message", "not_pushable"]


def test_an_own_message_that_was_pushed_is_explained(why: Why, account: Account) -> None:
    way, bobs = Way(), uuid4()
    own = way.notification(bobs, QUEUED).model_copy(update={"own": True})
    account.write_to_lake(way.observed(), way.envelope(MATCHED), own, way.push(bobs, PushDecision.DELIVERED))

    [trace] = why()["traces"]
    reasons = {step["what"]: step.get("reason") for step in trace["steps"]}
    assert reasons["queued"] == "an own message, which the app has delivered"
    assert reasons["delivered"] is None


def test_an_envelope_of_xmtp_that_was_only_observed_is_found_by_its_content(clarion: Clarion, account: Account) -> None:
    raw, at = Inbox(b"alix").message(NOW.timestamp()), int(NOW.timestamp() * 1000)
    account.write_to_lake(EnvelopeObserved(network=XMTP, at=at, receipt=uuid4(), observed_at=at, raw=raw))
    answer = json.loads(clarion("why", "--envelope", network(XMTP).decode(raw).id.hex(), "--json").out)
    assert whats(answer) == [["observed"]]


def test_what_was_only_observed_is_found_by_its_content(why: Why, clarion: Clarion, account: Account) -> None:
    account.write_to_lake(Way().observed(), Way().observed(raw=b"something else"))

    assert whats(why()) == [["observed"]]
    assert "observed: not decided yet" in clarion("why", "--envelope", HASH.hex()).out


def test_bytes_that_are_no_envelope_hide_nothing_else(why: Why, account: Account) -> None:
    account.write_to_lake(Way().observed(raw=b"garbage"), Way().observed())

    assert whats(why()) == [["observed"]]


def test_a_statement_too_large_for_a_message_is_found_by_its_receipt(why: Why, account: Account) -> None:
    way = Way()
    account.write_to_lake(way.observed(location="envelopes/1"), Way().observed(location="envelopes/2"))
    account.write_to_lake(way.envelope(EnvelopeDecision.BAD_SIGNATURE))

    assert whats(why()) == [["observed", "bad_signature"]]


def test_one_clients_part_is_told_alone(why: Why, account: Account) -> None:
    way, alices, bobs = Way(), uuid4(), uuid4()
    account.write_to_lake(way.observed(), way.envelope(MATCHED))
    account.write_to_lake(
        way.notification(bobs, QUEUED), way.notification(alices, NotificationDecision.RATE_LIMITED, ALICE)
    )
    account.write_to_lake(way.push(bobs, PushDecision.DELIVERED))

    assert whats(why("--client", ALICE.hex())) == [["observed", "matched", "rate_limited"]]
    assert whats(why("--client", BOB.hex())) == [["observed", "matched", "queued", "delivered"]]


def test_a_push_that_is_dated_before_its_decision_is_how_it_ended(why: Why, account: Account) -> None:
    way, bobs = Way(), uuid4()
    account.write_to_lake(way.observed(), way.envelope(MATCHED))
    account.write_to_lake(way.push(bobs, PushDecision.DELIVERED), way.notification(bobs, QUEUED))
    [ending] = why()["summary"]
    assert ending.startswith("delivered: ")


def test_a_client_that_did_not_want_it_is_told_so(why: Why, account: Account) -> None:
    way = Way()
    account.write_to_lake(way.observed(), way.envelope(MATCHED), way.notification(uuid4(), QUEUED))

    answer = why("--client", ALICE.hex())

    assert answer["summary"] == [
        "None of this client's subscriptions wanted it: no rule of theirs named one of its keys at that time."
    ]


def test_what_is_told_twice_is_shown_once(why: Why, account: Account) -> None:
    way, bobs = Way(), uuid4()
    lines = [
        way.observed(),
        way.envelope(MATCHED),
        way.notification(bobs, QUEUED),
        way.push(bobs, PushDecision.DELIVERED),
    ]
    account.write_to_lake(*lines)
    account.write_to_lake(*lines, way.observed(), way.envelope(MATCHED))

    assert whats(why()) == [["observed", "matched", "queued", "delivered"]]


def test_the_search_ends_at_the_hour_in_which_the_statement_was_observed(why: Why, account: Account) -> None:
    early = datetime.now(UTC) - timedelta(hours=3)
    way = Way(early)
    account.write_to_lake(way.observed(), way.envelope(EnvelopeDecision.EXPIRED), arrived=early)
    for hours in (4, 5, 20):
        account.write_to_lake(Way().observed(raw=b"x"), arrived=early - timedelta(hours=hours))

    answer = why()

    assert whats(answer) == [["observed", "expired"]]
    assert answer["files"] == 1


def test_a_duplicate_leads_back_to_whoever_claimed_it_before(why: Why, account: Account) -> None:
    early, bobs = datetime.now(UTC) - timedelta(hours=5), uuid4()
    first, second = Way(early), Way()
    account.write_to_lake(first.envelope(MATCHED), first.notification(bobs, QUEUED), arrived=early)
    account.write_to_lake(second.envelope(MATCHED), second.notification(bobs, NotificationDecision.DUPLICATE))

    assert whats(why()) == [["matched", "queued"], ["matched", "duplicate"]]


def test_nothing_found_says_what_that_may_mean(clarion: Clarion, account: Account) -> None:
    ended = clarion("why", "--envelope", HASH.hex())

    assert ended.code == 1
    for hint in ("nobody's rules name one of its keys", "Firehose buffers for a minute", "--since", "BLAKE2b-256"):
        assert hint in ended.out


def test_without_a_trace_it_names_the_command_that_looks_further_back(clarion: Clarion, account: Account) -> None:
    """But not what was looked for, which may be one of Apple's tokens."""
    ended = clarion("why", "--envelope", HASH.hex(), "--client", BOB.hex(), "--to", "2026-11-20T18:00")

    options = f"--lake s3://{LAKE} --to 2026-11-20T18:00:00+00:00 --client {BOB.hex()}"
    assert f"clarion-pipeline explain ENVELOPE {options}" in ended.out
    assert HASH.hex() not in ended.out + ended.err


@pytest.mark.parametrize(("words", "said"), [((), "it was too late"), (("--json",), '{"why": "it was too late"}')])
def test_without_a_trace_it_says_what_the_pipelines_command_says(
    clarion: Clarion,
    account: Account,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
) -> None:
    script = f"#!/bin/sh\ntest $2 = {HASH.hex()} && echo '{said}'\n"
    command = tmp_path / "command"
    command.write_text(script)
    command.chmod(0o755)
    monkeypatch.setenv(explain.COMMAND, str(command))

    ended = clarion("why", "--envelope", HASH.hex(), *words)

    assert ended.code == 0
    assert "it was too late" in ended.out
    assert "» clarion-pipeline explain ENVELOPE" in ended.err


def test_where_the_pipelines_command_knows_nothing_either_it_is_not_well(
    clarion: Clarion, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(explain.COMMAND, "/bin/false")

    assert clarion("why", "--envelope", HASH.hex()).code == 1


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), False),
        (("--since", "3d"), True),
        (("--from", f"{NOW - timedelta(days=9):%Y-%m-%d}", "--to", f"{NOW - timedelta(days=4):%Y-%m-%d}"), False),
        (("--from", f"{NOW - timedelta(days=3):%Y-%m-%d}", "--to", f"{NOW - timedelta(days=1):%Y-%m-%dT%H:%M}"), True),
    ],
)
def test_how_far_back_is_the_operators_choice(why: Why, account: Account, words: tuple[str, ...], found: bool) -> None:
    early = datetime.now(UTC) - timedelta(days=2)
    account.write_to_lake(Way(early).envelope(EnvelopeDecision.EXPIRED), arrived=early)

    assert bool(why(*words)["traces"]) is found


def test_lines_of_a_newer_clarion_are_counted(why: Why, account: Account) -> None:
    account.write_to_lake(b'{"version":2,"event":"envelope","envelope_id":"%s"}' % HASH.hex().encode())

    assert why()["summary"][-1].startswith("1 lines could not be read")


@pytest.mark.parametrize("wrong", ["abc", "zz" * 32, "0x" + "ab" * 31])
def test_a_hash_that_is_none_is_refused(clarion: Clarion, wrong: str) -> None:
    assert clarion("why", "--envelope", wrong).code == 2


def test_a_period_that_ends_before_it_begins_is_refused(clarion: Clarion) -> None:
    assert clarion("why", "--envelope", HASH.hex(), "--from", "2026-11-20", "--to", "2026-11-19").code == 2


def test_hours_are_walked_back_whole() -> None:
    hours = hours_back(datetime(2026, 11, 19, 22, 30, tzinfo=UTC), datetime(2026, 11, 20, 1, 0, tzinfo=UTC))

    assert [hour.hour for hour in hours] == [1, 0, 23, 22]
