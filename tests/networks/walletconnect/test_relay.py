from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from clarion import compact_json
from clarion.networks.walletconnect.acts import ACTS
from clarion.networks.walletconnect.relay import (
    RelayAnswer,
    RelayClient,
    RelayFault,
    RelayMessage,
    RelayRefusal,
    acknowledgement,
    publication,
    read,
)
from clarion.networks.walletconnect.tags import TAGS, WALLET_TAGS
from tests.networks.walletconnect.conftest import Vector
from tests.networks.walletconnect.test_jwt import claims_of

DATA = {"topic": "ab" * 32, "message": "AAAA", "publishedAt": 1_700_000_000_000, "tag": 4000}


def frame(**content: Any) -> bytes:
    return compact_json.encode({"id": 7, "jsonrpc": "2.0"} | content)


def handed_over(**changes: Any) -> bytes:
    return frame(method="irn_subscription", params={"id": "a", "data": DATA | changes})


def test_the_relay_is_shown_the_token_that_its_own_clients_show(vectors: Vector) -> None:
    expected = vectors["relay_auth"]
    claims = claims_of(expected["jwt"])
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(expected["seed"]))
    client = RelayClient("wss://relay.walletconnect.com", "p" * 32, key, claims["sub"])
    assert client.token(claims["aud"], claims["iat"]) == expected["jwt"]


def test_each_connection_has_a_new_token_of_the_same_session() -> None:
    client = RelayClient("wss://relay.example.com", "p" * 32, Ed25519PrivateKey.generate())
    first, second = (claims_of(client.token("wss://relay.example.com", now)) for now in (1, 2))
    assert first["sub"] == second["sub"]
    assert len(bytes.fromhex(first["sub"])) == 32
    assert (first["iat"], second["iat"]) == (1, 2)


@pytest.mark.parametrize("url", ["wss://relay.example.com", "https://relay.example.com/"])
def test_each_protocol_goes_to_the_same_host_with_a_token_for_it(url: str) -> None:
    client = RelayClient(url, "1234", Ed25519PrivateKey.generate())
    rpc, _, query = client.rpc_url(1).partition("?auth=")
    token, _, project = query.partition("&")
    assert rpc == "https://relay.example.com/rpc"
    assert claims_of(token)["aud"] == "https://relay.example.com"
    assert project == "projectId=1234"
    assert client.socket_url(1).startswith("wss://relay.example.com/?auth=")


def test_what_identifies_a_client_is_not_shown() -> None:
    client = RelayClient("wss://relay.example.com", "1234", Ed25519PrivateKey.generate())
    assert client.session not in repr(client)


def test_what_the_server_publishes_is_tagged_and_kept_as_the_deployed_one_has_it(publish: Vector) -> None:
    if publish["from"] != "server":
        assert publish["tag"] in WALLET_TAGS
        return
    (act,) = [act for act, tag in TAGS.items() if tag == publish["tag"]]
    made = publication(publish["topic"], publish["message"], act)
    assert (made.tag, made.ttl, made.prompt) == (publish["tag"], publish["ttl"], publish["prompt"])
    assert made.tag not in WALLET_TAGS


def test_each_act_has_a_tag() -> None:
    assert set(TAGS) == set(ACTS["shipped"]) | {"notify_receipt"}


def test_a_message_is_read_with_what_acknowledges_it() -> None:
    message = read(handed_over())
    assert message == RelayMessage(id=7, topic="ab" * 32, message="AAAA", tag=4000, published_at=1_700_000_000_000)
    assert read(acknowledgement(7)) == RelayAnswer(7, result=True)


def test_a_message_without_tag_is_of_no_kind() -> None:
    message = read(handed_over(tag=None))
    assert isinstance(message, RelayMessage)
    assert message.tag == 0


def test_a_refusal_is_read_without_what_it_may_quote() -> None:
    error = {"code": -32000, "message": "Request handler error: eyJhbGciOi", "data": "MailboxLimitExceeded"}
    assert read(frame(error=error)) == RelayRefusal(7, -32000, "MailboxLimitExceeded")
    assert read(frame(error={"code": 3000, "message": "?", "data": "bad auth=eyJ"})) == RelayRefusal(
        7, 3000, "no reason"
    )


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"[]",
        b"{",
        frame(),
        frame(method="irn_subscription", params=[]),
        frame(error="refused"),
        handed_over(topic=None),
        handed_over(publishedAt="now"),
        handed_over(publishedAt=-1),
        frame(id="1" * 101, method="irn_subscription", params={"data": DATA}),
        frame(id=1 << 64, method="irn_subscription", params={"data": DATA}),
    ],
)
def test_what_the_relay_never_says_is_its_fault(sent: bytes) -> None:
    with pytest.raises(RelayFault):
        read(sent)


def test_a_request_of_another_kind_says_nothing() -> None:
    assert read(frame(method="irn_other", params={"data": DATA})) is None


@given(st.binary())
def test_any_bytes_are_read_or_are_the_relays_fault(sent: bytes) -> None:
    with suppress(RelayFault):
        assert isinstance(read(sent), RelayMessage | RelayAnswer | RelayRefusal | None)
