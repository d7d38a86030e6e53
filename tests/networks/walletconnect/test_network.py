"""WalletConnect keeps to what `clarion.networks` says of any network."""

import json
from hashlib import sha256
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.channels import CHANNELS, Channel
from clarion.decisions import PushDecision, Wanted
from clarion.messages import PushMessage
from clarion.networks import (
    NETWORKS,
    WALLETCONNECT,
    Envelope,
    Malformed,
    PushAnswer,
    Receiver,
    Rule,
    exceeds_bounds,
    network,
)
from clarion.networks.walletconnect import rules
from clarion.networks.walletconnect.network import NETWORK
from clarion.networks.walletconnect.payload import NotificationBody
from clarion.networks.walletconnect.sealed import SealedNotification
from tests.networks.test_toy import push_of as push_of_toy

TOPIC = "5a" * 32
KEY = b"\x04" + bytes.fromhex(TOPIC)
TYPE, OTHER = UUID(int=1), UUID(int=2)
SMALL, LARGE = "AAEC", "A" * 8_000
SENT = SealedNotification(TOPIC, SMALL, TYPE, "one", 1_800_000_000)


def push(channel: Channel, message: str = SMALL) -> PushMessage:
    notification = SealedNotification(TOPIC, message, TYPE, "one", 1_800_000_000)
    envelope = NETWORK.decode(notification.raw)
    return PushMessage(
        network=WALLETCONNECT,
        receipt=UUID(int=1),
        observed_at=1,
        envelope_id=envelope.id,
        subscription_id=UUID(int=2),
        client_id=b"a client",
        channel=channel,
        expires_at=envelope.expires_at,
        body=NETWORK.push_body(envelope, KEY, channel),
    )


def payload(channel: Channel, message: str = SMALL, spare: int = 0) -> tuple[dict[str, object], bool]:
    """What the app gets, and whether it is truncated, where the channel takes so many bytes less."""
    travelled = PushMessage.model_validate_json(push(channel, message).to_json())
    made = NETWORK.payload(channel, travelled, Receiver("A wallet", CHANNELS[channel].payload_bytes - spare))
    found: dict[str, object] = json.loads(made.body if isinstance(made.body, bytes) else json.dumps(made.body["data"]))
    return found, made.truncated


def test_it_is_registered_under_a_number_of_its_own() -> None:
    registered: object = network(WALLETCONNECT)
    assert registered is NETWORK
    others = [network(name) for name in NETWORKS if name != WALLETCONNECT]
    assert NETWORK.number not in {other.number for other in others}


def test_a_notification_is_known_by_its_topic_and_its_id() -> None:
    envelope = NETWORK.decode(SENT.raw)
    digest = sha256(bytes.fromhex(TOPIC) + b"one").digest()
    assert envelope == Envelope(WALLETCONNECT, digest, [KEY], None, 1_800_000_000, SENT)
    assert NETWORK.verify(envelope) is None
    assert SMALL not in repr(SENT)


@given(st.binary(max_size=200) | st.builds(lambda members: json.dumps(members).encode(), st.dictionaries(
    st.sampled_from(["topic", "message", "type", "id", "expires_at"]), st.text(max_size=5) | st.integers()
)))  # fmt: skip
def test_whatever_lies_in_the_queue_is_an_envelope_or_malformed(raw: bytes) -> None:
    try:
        envelope = NETWORK.decode(raw)
    except Malformed:
        return
    assert not exceeds_bounds(envelope)


@given(st.sets(st.uuids(), max_size=rules.MAX_TYPES))
def test_a_condition_says_which_types_it_lists(types: set[UUID]) -> None:
    assert set(rules.unpack(rules.pack(types))) == types


@pytest.mark.parametrize(
    ("types", "wanted"),
    [([], Wanted.ALERT), ([OTHER, TYPE], Wanted.ALERT), ([OTHER], Wanted.NOT_IN_SCOPE)],
    ids=["all types", "its type", "another type"],
)
def test_a_rule_wants_the_types_that_it_lists(types: list[UUID], wanted: Wanted) -> None:
    envelope = NETWORK.decode(SENT.raw)
    assert NETWORK.wants(envelope, Rule(KEY, rules.pack(types)), 0) is wanted
    assert wanted in NETWORK.may_want(envelope)
    assert NETWORK.bytes_per_rule(envelope) == 0


def test_a_rule_shows_its_topic_and_its_types() -> None:
    assert NETWORK.describe(Rule(KEY)) == {"topic": TOPIC}
    assert NETWORK.describe(Rule(KEY, rules.pack([OTHER]))) == {"topic": TOPIC, "types": str(OTHER)}


@pytest.mark.parametrize(
    ("channel", "head"),
    [
        (
            Channel.APNS,
            {"aps": {"alert": {"title": "A wallet"}, "mutable-content": 1, "content-available": 1}, "tag": 4002},
        ),
        (Channel.FCM, {"tag": "4002"}),
        (Channel.WEBPUSH, {"title": "A wallet", "tag": 4002}),
    ],
)
def test_the_wallet_gets_the_message_as_the_relay_has_it_or_its_hash(channel: Channel, head: dict[str, object]) -> None:
    assert payload(channel) == ({**head, "topic": TOPIC, "message": SMALL}, False)
    digest = sha256(LARGE.encode()).hexdigest()
    assert payload(channel, LARGE) == ({**head, "topic": TOPIC, "hash": digest}, True)


@pytest.mark.parametrize("channel", NETWORK.channels)
def test_a_payload_is_whole_up_to_the_last_byte_that_there_is(channel: Channel) -> None:
    whole, _ = payload(channel)
    spare = CHANNELS[channel].payload_bytes - len(json.dumps(whole, separators=(",", ":")))
    assert [payload(channel, spare=less)[1] for less in (spare, spare + 1)] == [False, True]


def test_what_fits_no_channel_need_not_travel() -> None:
    body = push(Channel.FCM, LARGE).body
    assert isinstance(body, NotificationBody)
    assert body.message is None
    assert SMALL not in repr(push(Channel.FCM).body)


def test_a_channel_that_it_does_not_serve_has_no_payload() -> None:
    with pytest.raises(LookupError):
        NETWORK.payload(Channel.VOIP, push(Channel.APNS), Receiver("A wallet", 5_120))


def test_nothing_follows_from_an_outcome() -> None:
    assert NETWORK.on_outcome(push(Channel.APNS), PushDecision.DELIVERED, PushAnswer()) is None


def test_what_is_of_another_network_is_refused(toy: str) -> None:
    with pytest.raises(TypeError, match="no envelope of WalletConnect"):
        NETWORK.wants(Envelope(WALLETCONNECT, bytes(32), [KEY], None, 0, "a text"), Rule(KEY), 0)
    with pytest.raises(TypeError, match="no push of WalletConnect"):
        NETWORK.payload(Channel.APNS, push_of_toy(network(toy)), Receiver("A wallet", 4_096))
