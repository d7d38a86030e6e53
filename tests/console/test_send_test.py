"""A test push takes the way of every push, and leaves nothing behind."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from clarion import base64url, tables
from clarion.addresses import canonical
from clarion.channels import Channel
from clarion.decisions import Environment, PushDecision
from clarion.endings import Death, declare_dead
from clarion.events import PushTried
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS
from clarion.tables import Subscription, Token
from clarion.tokens import token_hash
from console import send_test
from dispatch.pushes import obstacle
from tests.console.account import Account, Clarion

TOKEN = "c0ffee" * 10 + "c0de"
PUBLIC_KEY = (
    ec.generate_private_key(ec.SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
)
BROWSER = {
    "endpoint": "https://fcm.googleapis.com/fcm/send/a-browser",
    "expirationTime": None,
    "keys": {"p256dh": base64url.encode(PUBLIC_KEY), "auth": base64url.encode(bytes(16))},
}
LOOK_SECONDS = 0.02
WRITTEN = {
    Channel.APNS: TOKEN.upper(),
    Channel.VOIP: f"0x{TOKEN}",
    Channel.FCM: "a-phone:APA91b_the-rest",
    Channel.WEBPUSH: json.dumps(BROWSER),
}
"""As somebody may have them at hand."""


class Dispatch:
    """Stands in for the channel's function: takes the message, reads its subscription, records the outcome."""

    def __init__(self, account: Account, channel: str, *decisions: PushDecision) -> None:
        self._account, self._channel, self._decisions = account, channel, decisions
        self.rows: list[Subscription] = []
        self.obstacles: list[Any] = []

    def run(self, ended: threading.Event) -> None:
        sqs = self._account.sqs
        while not ended.wait(LOOK_SECONDS):
            for one in sqs.receive_message(QueueUrl=self._account.urls[self._channel]).get("Messages", []):
                message = PushMessage.model_validate_json(one["Body"])
                row = Subscription.get(str(message.subscription_id))
                self.rows.append(row)
                self.obstacles.append(obstacle(message, row, datetime.now(UTC).timestamp()))
                for attempt, decision in enumerate(self._decisions, 1):
                    self._account.write_to_lake(_tried(message, decision, attempt))


def _tried(message: PushMessage, decision: PushDecision, attempt: int) -> PushTried:
    return PushTried(
        network=message.network,
        at=message.observed_at + 70,
        receipt=message.receipt,
        envelope_id=message.envelope_id,
        decision=decision,
        subscription_id=message.subscription_id,
        channel=message.channel,
        attempt=attempt,
        latency_ms=70,
        status=200 if decision is PushDecision.DELIVERED else 400,
        reason=None if decision is PushDecision.DELIVERED else "a reason",
    )


type Dispatching = Callable[..., Dispatch]


@pytest.fixture
def dispatching(account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dispatching]:
    monkeypatch.setattr(send_test, "POLL_SECONDS", 0.1)
    ended, threads = threading.Event(), list[threading.Thread]()

    def start(channel: str, *decisions: PushDecision) -> Dispatch:
        dispatch = Dispatch(account, channel, *decisions)
        threads.append(threading.Thread(target=dispatch.run, args=[ended]))
        threads[-1].start()
        return dispatch

    yield start
    ended.set()
    for thread in threads:
        thread.join()


def test_the_push_goes_the_way_of_every_push_and_the_outcome_is_told(
    clarion: Clarion, account: Account, dispatching: Dispatching
) -> None:
    dispatch = dispatching("apns", PushDecision.DELIVERED)

    ended = clarion("send-test", TOKEN, "--channel", "apns", "--yes", "--json", "--app", "second", "--sandbox")

    result = json.loads(ended.out)
    assert (ended.code, result["decision"], result["status"], result["latency_ms"]) == (0, "delivered", 200, 70)
    (row,) = dispatch.rows
    assert (row.token, row.app, row.environment, dispatch.obstacles) == (TOKEN, "second", "sandbox", [None])


def test_nothing_is_left_behind(clarion: Clarion, account: Account, dispatching: Dispatching) -> None:
    dispatching("apns", PushDecision.REFUSED)

    ended = clarion("send-test", TOKEN, "--channel", "apns", "--yes")

    assert ended.code == 1
    assert "refused: attempt 1, status 400, reason a reason" in ended.out
    assert "`clarion redrive apns` clears it" in ended.out
    assert list(Subscription.scan()) == []


def test_a_retry_is_waited_for(clarion: Clarion, account: Account, dispatching: Dispatching) -> None:
    dispatching("fcm", PushDecision.RETRY, PushDecision.DELIVERED)

    ended = clarion("send-test", TOKEN, "--channel", "fcm", "--yes", "--json")

    assert (json.loads(ended.out)["decision"], json.loads(ended.out)["attempt"]) == ("delivered", 2)


def test_no_word_in_time_says_how_to_ask_later(clarion: Clarion, account: Account, dispatching: Dispatching) -> None:
    ended = clarion("send-test", TOKEN, "--channel", "voip", "--yes", "--wait", "1")

    assert ended.code == 1
    assert "the lake recorded nothing of it in time" in ended.out
    assert "clarion why --envelope 0x" in ended.out
    assert list(Subscription.scan()) == []


def test_the_token_comes_from_standard_input_for_a_dash(
    clarion: Clarion, account: Account, dispatching: Dispatching
) -> None:
    dispatch = dispatching("fcm", PushDecision.DELIVERED)

    clarion("send-test", "-", "--channel", "fcm", "--yes", typed=f"{TOKEN}\n")

    assert [row.token for row in dispatch.rows] == [TOKEN]


def test_a_dead_token_costs_its_real_owner_nothing_more(account: Account) -> None:
    """What dispatch does when the provider declares the token dead, done to the test's subscription."""
    Token(token_hash(Channel.FCM, TOKEN), STATEMENTS, subscription_id="the owner's", client_id=b"o" * 32).save()
    device = send_test.TestDevice(TOKEN, Channel.FCM, None, Environment.PRODUCTION)
    connection = tables.bind(account.here.prefix)

    with send_test._subscribed(device, datetime.now(UTC)) as name:
        row = Subscription.get(str(name))
        died = declare_dead(connection, row, Death("Unregistered", at=1))

    assert died == []
    assert [row.subscription_id for row in Token.scan()] == ["the owner's"]


def test_a_subscription_that_a_broken_test_leaves_is_gone_after_a_day(account: Account) -> None:
    device, now = send_test.TestDevice(TOKEN, Channel.FCM, None, Environment.PRODUCTION), datetime.now(UTC)

    with send_test._subscribed(device, now) as name:
        assert Subscription.get(str(name)).ttl == int(now.timestamp()) + 86_400


def test_a_muted_channel_is_told_before_anything_is_sent(clarion: Clarion, account: Account) -> None:
    clarion("mute", "fcm", "--yes")

    ended = clarion("send-test", TOKEN, "--channel", "fcm", "--yes")

    assert (ended.code, account.count("fcm")) == (3, 0)
    assert "clarion unmute fcm" in ended.err


def test_nothing_is_sent_unconfirmed(clarion: Clarion, account: Account) -> None:
    ended = clarion("send-test", TOKEN, "--channel", "voip", typed="n\n")

    assert (ended.code, account.count("voip")) == (2, 0)
    assert "the phone will ring" in ended.err


@pytest.mark.parametrize("channel", ["apns", "fcm"])
def test_an_empty_token_is_refused(clarion: Clarion, account: Account, channel: str) -> None:
    ended = clarion("send-test", "-", "--channel", channel, "--yes", typed="\n")

    assert (ended.code, account.count(channel)) == (2, 0)
    assert f"must be a token of {channel}" in ended.err


@pytest.mark.parametrize("channel", send_test.TESTED)
@pytest.mark.parametrize("wrong", ["c0ffee c0de", "z!" * 40])
def test_what_is_no_address_of_the_channel_is_refused_and_not_repeated(
    clarion: Clarion, account: Account, channel: Channel, wrong: str
) -> None:
    ended = clarion("send-test", wrong, "--channel", str(channel), "--yes")

    assert (ended.code, account.count(channel)) == (2, 0)
    assert ("not a browser's subscription" if channel is Channel.WEBPUSH else "must be a token of") in ended.err
    assert wrong not in ended.out + ended.err


@pytest.mark.parametrize("channel", send_test.TESTED)
def test_every_channel_s_addresses_are_pushed_to_however_they_are_written(
    clarion: Clarion, account: Account, dispatching: Dispatching, channel: Channel
) -> None:
    dispatch = dispatching(channel, PushDecision.DELIVERED)
    written = WRITTEN[channel]

    ended = clarion("send-test", "-", "--channel", str(channel), "--yes", typed=f"{written}\n")

    assert (ended.code, [row.token for row in dispatch.rows]) == (0, [canonical(channel, written)])
    assert written not in ended.out + ended.err
