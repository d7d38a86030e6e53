from datetime import UTC, datetime
from typing import Any

import jwt

from clarion.networks.statements import signature
from clarion.networks.statements.codec import decode
from local.device import Device, forge, topic_of

SECRET = "a secret of at least thirty-two bytes"
CHAT = topic_of("chat")


def test_a_name_is_always_the_same_key() -> None:
    assert Device("Alice").public_key == Device("Alice").public_key != Device("Bob").public_key


def test_a_statement_is_signed_and_carries_what_was_said() -> None:
    alice = Device("Alice")
    statement = decode(alice.statement(CHAT, data=b"hello", channel=topic_of("channel"), expires_at=2_000_000_000))
    assert signature.verify(statement)
    assert (statement.signer, statement.topics, statement.data) == (alice.public_key, (CHAT,), b"hello")
    assert (statement.channel, statement.expires_at) == (topic_of("channel"), 2_000_000_000)


def test_a_forged_statement_decodes_and_does_not_verify() -> None:
    assert not signature.verify(decode(forge(Device("Alice").statement(CHAT, data=b"hello"))))


def test_an_api_token_names_the_device_for_a_day() -> None:
    alice, issued = Device("Alice"), datetime(2026, 11, 20, tzinfo=UTC)
    options: Any = {"verify_exp": False, "verify_iat": False}
    claims = jwt.decode(
        alice.api_token(SECRET, issued), SECRET, ["HS256"], issuer="polkadot-app", audience="clarion", options=options
    )
    assert claims["sub"] == alice.public_key.hex()
    assert claims["exp"] - claims["iat"] == 24 * 3600
