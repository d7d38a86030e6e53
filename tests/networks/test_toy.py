"""The toy network keeps to what `clarion.networks` says of any network, and the kernel's messages carry it."""

from uuid import UUID

import pytest

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, PushDecision, Wanted
from clarion.messages import PushMessage
from clarion.networks import Command, Envelope, Malformed, Network, PushAnswer, Receiver, network
from tests import toy

SECRET = b"a secret"


@pytest.fixture
def registered(toy: str) -> Network:
    return network(toy)


def envelope_of(registered: Network, raw: bytes) -> Envelope:
    envelope = registered.decode(raw)
    assert envelope.network == "toy"
    assert len(envelope.id) == 32
    assert all(key[0] == registered.number for key in envelope.keys)
    return envelope


def test_what_one_node_assigns_is_no_part_of_an_envelopes_id(registered: Network) -> None:
    saying = toy.Saying(rooms=("hall",), text="hello", shown_at=1)
    elsewhere = saying.model_copy(update={"shown_at": 2})
    assert envelope_of(registered, saying.to_raw()).id == envelope_of(registered, elsewhere.to_raw()).id


def test_what_the_network_cannot_have_shown_is_malformed(registered: Network) -> None:
    with pytest.raises(Malformed):
        registered.decode(b"{}")


def test_what_is_not_genuine_wakes_nobody(registered: Network) -> None:
    forged = toy.Saying(rooms=("hall",), text="hello", genuine=False)
    assert registered.verify(envelope_of(registered, forged.to_raw())) is EnvelopeDecision.BAD_SIGNATURE
    assert registered.verify(envelope_of(registered, toy.say("hello"))) is None


@pytest.mark.parametrize("wanted", Wanted)
def test_a_condition_can_want_an_envelope_in_every_way(registered: Network, wanted: Wanted) -> None:
    said = envelope_of(registered, toy.say("hello"))
    assert registered.wants(said, toy.rule_of("hall", wanted), 0) is wanted


def test_who_has_the_secret_knows_its_own_message(registered: Network) -> None:
    said = envelope_of(registered, toy.say("hello", mark=toy.mark_of(SECRET, "hello")))
    assert registered.wants(said, toy.rule_of("hall", secret=SECRET), 0) is Wanted.OWN_MESSAGE
    assert registered.wants(said, toy.rule_of("hall", secret=b"another"), 0) is Wanted.ALERT


def push_of(registered: Network) -> PushMessage:
    said = envelope_of(registered, toy.say("hello", "hall", "porch"))
    return PushMessage(
        network="toy",
        receipt=UUID(int=1),
        observed_at=1,
        envelope_id=said.id,
        subscription_id=UUID(int=2),
        client_id=b"a client",
        channel=Channel.APNS,
        expires_at=said.expires_at,
        body=registered.push_body(said, said.keys[1], Channel.APNS),
    )


def test_a_push_carries_the_networks_own_body(registered: Network) -> None:
    push = push_of(registered)
    assert push.body == toy.ToyBody(room="porch", text="hello")
    assert PushMessage.model_validate_json(push.to_json()) == push


@pytest.mark.parametrize("channel", Channel)
def test_a_payload_is_truncated_for_who_receives_few_bytes(registered: Network, channel: Channel) -> None:
    push = push_of(registered)
    whole, truncated = (registered.payload(channel, push, Receiver("Toys", most)) for most in (4096, 30))
    assert ("hello" in str(whole.body), whole.truncated) == (True, False)
    assert ("hello" in str(truncated.body), truncated.truncated) == (False, True)


def test_a_dead_token_gives_an_order_to_the_networks_own_function(registered: Network) -> None:
    push = push_of(registered)
    assert registered.on_outcome(push, PushDecision.TOKEN_GONE, PushAnswer()) == Command(
        "toy", b"gone:" + str(UUID(int=2)).encode()
    )
    assert registered.on_outcome(push, PushDecision.DELIVERED, PushAnswer()) is None
