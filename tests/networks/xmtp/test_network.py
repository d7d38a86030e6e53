"""XMTP keeps to what `clarion.networks` says of any network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.channels import Channel
from clarion.decisions import PushDecision, Wanted
from clarion.networks import NETWORKS, XMTP, Envelope, Malformed, PushAnswer, Rule, exceeds_bounds, network
from clarion.networks.xmtp import decode
from clarion.networks.xmtp.envelope import LIFETIME_S
from clarion.networks.xmtp.network import NETWORK
from clarion.networks.xmtp.payload import APNS_LIMIT, TopicBody
from clarion.networks.xmtp.rules import MAX_KEYS, TopicCondition, key_of, pack
from clarion.networks.xmtp.sender_hmac import PERIOD_S
from clarion.networks.xmtp.topics import MAX_TOPIC_SIZE
from tests import xmtp
from tests.networks.test_toy import push_of
from tests.xmtp import TOPIC, WELCOMES, Inbox

PERIOD = 700
AT = PERIOD * PERIOD_S + 86_400
ALIX, BO = Inbox(b"alix"), Inbox(b"bo")


def envelope_of(raw: bytes) -> Envelope:
    envelope = NETWORK.decode(raw)
    assert not exceeds_bounds(envelope)
    assert all(key[0] == NETWORK.number for key in envelope.keys)
    return envelope


def test_it_is_registered_under_a_number_of_its_own() -> None:
    registered: object = network(XMTP)
    assert registered is NETWORK
    others = [network(name) for name in NETWORKS if name != XMTP]
    assert NETWORK.number not in {other.number for other in others}


def test_an_envelope_is_known_by_its_topic() -> None:
    raw = ALIX.message(AT)
    envelope, message = envelope_of(raw), decode(raw)
    assert envelope == Envelope(XMTP, message.id, [key_of(TOPIC)], TOPIC.encode(), AT + LIFETIME_S, message)
    assert NETWORK.verify(envelope) is None


def test_what_one_node_assigns_is_no_part_of_an_envelopes_id() -> None:
    assert envelope_of(ALIX.message(AT)).id == envelope_of(ALIX.message(AT + 1)).id


@given(st.binary(max_size=200))
def test_whatever_a_node_shows_is_an_envelope_or_malformed(raw: bytes) -> None:
    try:
        envelope = NETWORK.decode(raw)
    except Malformed:
        return
    assert not exceeds_bounds(envelope)
    assert all(NETWORK.push_body(envelope, key, Channel.APNS).topic for key in envelope.keys)


@pytest.mark.parametrize("topic", ["t" * MAX_TOPIC_SIZE, "é" * (MAX_TOPIC_SIZE // 2)])
def test_the_longest_topic_fits_the_tables(topic: str) -> None:
    assert envelope_of(xmtp.envelope(topic, b"", AT)).keys == [key_of(topic)]


@pytest.mark.parametrize("topic", ["t" * (MAX_TOPIC_SIZE + 1), "é" * (MAX_TOPIC_SIZE // 2) + "e", "t" * 100_000])
def test_a_longer_topic_has_no_rules(topic: str) -> None:
    envelope = envelope_of(xmtp.envelope(topic, b"", AT))
    assert (envelope.keys, envelope.sender) == ([], None)


@pytest.mark.parametrize(("silent", "wanted"), [(False, Wanted.ALERT), (True, Wanted.BACKGROUND)])
def test_another_ones_message_is_wanted_as_the_rule_says(wanted: Wanted, *, silent: bool) -> None:
    assert NETWORK.wants(envelope_of(BO.message(AT)), ALIX.rule(AT, silent=silent), 0) is wanted


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("should_push", [False, True])
def test_an_own_message_is_not_wanted_whatever_else_it_says(*, silent: bool, should_push: bool) -> None:
    own = envelope_of(ALIX.message(AT, should_push=should_push))
    assert NETWORK.wants(own, ALIX.rule(AT, silent=silent), 0) is Wanted.OWN_MESSAGE


@pytest.mark.parametrize("silent", [False, True])
def test_what_its_sender_would_not_push_is_not_pushable(*, silent: bool) -> None:
    reaction = envelope_of(BO.message(AT, should_push=False))
    assert NETWORK.wants(reaction, ALIX.rule(AT, silent=silent), 0) is Wanted.NOT_PUSHABLE


@pytest.mark.parametrize("sent_in", [PERIOD - 1, PERIOD])
@pytest.mark.parametrize("taken_at", [PERIOD * PERIOD_S - 1, PERIOD * PERIOD_S])
def test_an_own_message_is_known_across_a_rollover(sent_in: int, taken_at: int) -> None:
    own = envelope_of(ALIX.message(taken_at, period=sent_in))
    for subscribed_at in (PERIOD * PERIOD_S - 1, PERIOD * PERIOD_S):
        assert NETWORK.wants(own, ALIX.rule(subscribed_at), 0) is Wanted.OWN_MESSAGE
        assert NETWORK.wants(own, BO.rule(subscribed_at), 0) is Wanted.ALERT


@pytest.mark.parametrize("message", [b"", b"\xff", b"a welcome"])
@pytest.mark.parametrize("topic", [TOPIC, WELCOMES, "another"])
def test_what_cannot_be_read_within_an_envelope_is_wanted(topic: str, message: bytes) -> None:
    envelope = envelope_of(xmtp.envelope(topic, message, AT))
    condition = pack(TopicCondition(ALIX.keys(PERIOD), silent=True))
    assert NETWORK.wants(envelope, Rule(envelope.keys[0], condition), 0) is Wanted.BACKGROUND


@pytest.mark.parametrize(
    ("raw", "answers"),
    [
        (BO.message(AT), {Wanted.OWN_MESSAGE, Wanted.ALERT, Wanted.BACKGROUND}),
        (BO.message(AT, should_push=False), {Wanted.OWN_MESSAGE, Wanted.NOT_PUSHABLE}),
        (xmtp.envelope(WELCOMES, b"a welcome", AT), {Wanted.ALERT, Wanted.BACKGROUND}),
        (xmtp.envelope(TOPIC, b"\xff", AT), {Wanted.ALERT, Wanted.BACKGROUND}),
    ],
)
def test_without_a_condition_it_is_known_which_answers_there_may_be(raw: bytes, answers: set[Wanted]) -> None:
    envelope = envelope_of(raw)
    conditions = [b"", *(inbox.rule(AT, silent=silent).condition for inbox in (ALIX, BO) for silent in (False, True))]
    rules = [Rule(envelope.keys[0], condition, takes_own) for condition in conditions for takes_own in (False, True)]
    assert set(NETWORK.may_want(envelope)) == {NETWORK.wants(envelope, rule, 0) for rule in rules} == answers


@pytest.mark.parametrize("raw", [BO.message(AT), BO.message(AT, should_push=False), xmtp.envelope(WELCOMES, b"hi", AT)])
def test_without_a_condition_it_makes_no_difference_when_it_is_asked(raw: bytes) -> None:
    envelope = envelope_of(raw)
    rule = Rule(envelope.keys[0])
    assert NETWORK.wants(envelope, rule, 0) is NETWORK.wants(envelope, rule, AT // 1_000_000 + 40 * 86_400_000)


@given(st.binary(max_size=40))
def test_a_condition_that_cannot_be_read_counts_as_an_empty_one(condition: bytes) -> None:
    wanted = NETWORK.wants(envelope_of(BO.message(AT)), Rule(key_of(TOPIC), condition), 0)
    # Of so few bytes, nothing else than the flag alone can be read.
    assert wanted is (Wanted.BACKGROUND if condition == b"\1" else Wanted.ALERT)


def test_a_push_carries_what_payloads_are_made_of() -> None:
    message = decode(ALIX.message(AT, should_push=False))
    found = NETWORK.push_body(envelope_of(ALIX.message(AT, should_push=False)), key_of(TOPIC), Channel.APNS)
    assert found == TopicBody(
        topic=TOPIC, timestamp_ns=AT * xmtp.NS, message=message.message, kind="v3-conversation", should_push=False
    )


def test_a_message_that_does_not_fit_its_channel_stays_behind() -> None:
    envelopes = [envelope_of(xmtp.envelope(WELCOMES, bytes(APNS_LIMIT * 3 // 4 + more), AT)) for more in (0, 1)]
    bodies = [NETWORK.push_body(envelope, b"", Channel.APNS) for envelope in envelopes]
    assert [body.message is None for body in bodies] == [False, True]
    assert {(body.kind, body.should_push) for body in bodies} == {("v3-welcome", None)}
    assert NETWORK.push_body(envelopes[1], b"", Channel.WEBHOOK).message


def test_an_outcome_changes_nothing_of_its_own(toy: str) -> None:
    push = push_of(network(toy))
    assert [NETWORK.on_outcome(push, outcome, PushAnswer()) for outcome in PushDecision] == [None] * len(PushDecision)


def test_people_read_the_topic_and_of_which_periods_there_are_keys_but_no_key() -> None:
    assert NETWORK.describe(Rule(key_of(TOPIC))) == {"topic": TOPIC}
    described = NETWORK.describe(ALIX.rule(AT, silent=True))
    assert described == {"topic": TOPIC, "key_periods": "699, 700, 701", "is_silent": "true"}
    assert len(ALIX.keys(PERIOD)) == MAX_KEYS
