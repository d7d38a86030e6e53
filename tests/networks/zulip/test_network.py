"""Zulip keeps to what `clarion.networks` says of any network, although servers alone hand anything over."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.channels import Channel
from clarion.decisions import PushDecision, Wanted
from clarion.networks import NETWORKS, ZULIP, Envelope, Malformed, PushAnswer, Rule, network
from clarion.networks.zulip.network import NETWORK
from clarion.networks.zulip.payload import ApnsBody, ShippedContent, push_of

ENVELOPE = Envelope(ZULIP, bytes(32), [], None, 0, None)
RULE = Rule(bytes([NETWORK.number]))


def test_it_is_registered_under_a_number_of_its_own() -> None:
    registered: object = network(ZULIP)
    assert registered is NETWORK
    others = [network(name) for name in NETWORKS if name != ZULIP]
    assert NETWORK.number not in {other.number for other in others}


@given(st.binary(max_size=100))
def test_there_are_no_envelopes(raw: bytes) -> None:
    with pytest.raises(Malformed):
        NETWORK.decode(raw)
    with pytest.raises(TypeError):
        NETWORK.push_body(ENVELOPE, RULE.key, Channel.APNS)


def test_no_rule_wants_anything() -> None:
    assert NETWORK.verify(ENVELOPE) is None
    assert NETWORK.wants(ENVELOPE, RULE, 0) is Wanted.NOT_PUSHABLE
    assert NETWORK.may_want(ENVELOPE) == (Wanted.NOT_PUSHABLE,)
    assert (NETWORK.bytes_per_rule(ENVELOPE), NETWORK.describe(RULE)) == (0, {})


def test_an_outcome_changes_nothing_of_its_own() -> None:
    body = ApnsBody(content=ShippedContent(push_key_id=1, encrypted_data="c2VhbGVk"))
    push = push_of("00000000-0000-0000-0000-000000000007", b"s" * 16, body, 1)
    assert [NETWORK.on_outcome(push, outcome, PushAnswer()) for outcome in PushDecision] == [None] * len(PushDecision)


def test_its_pushes_need_no_cryptography() -> None:
    """Neither the ingest image nor Spark has the library."""
    program = "import sys, clarion.networks.zulip.network; print({'nacl', '_cffi_backend'} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"
