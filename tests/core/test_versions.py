"""Two versions of Clarion run side by side during an upgrade: each reads what the other wrote."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError
from pynamodb.attributes import Attribute, BinaryAttribute, BooleanAttribute, NumberAttribute
from pynamodb.models import Model

from clarion.channels import Channel
from clarion.decisions import Wanted
from clarion.messages import (
    CleanupMessage,
    CommandMessage,
    DeadTokenMessage,
    EnvelopeMessage,
    Message,
    ObservedMessage,
    PageMessage,
    PushMessage,
    RemainderMessage,
    RepetitionMessage,
    SecondLookMessage,
    Span,
    read_cleanup_request,
    read_match_message,
)
from clarion.networks import STATEMENTS
from clarion.networks.statements.payload import StatementBody
from clarion.tables import MODELS, PageLock, Subscription
from tests import previous

RECEIPT, SUBSCRIPTION, TOKEN = UUID(int=1), UUID(int=2), UUID(int=3)
ENVELOPE = EnvelopeMessage(network=STATEMENTS, receipt=RECEIPT, observed_at=1, raw=b"\x00\xff")
SEEN = ENVELOPE.observation

WRITTEN: Mapping[str, Message] = {
    "an envelope": ENVELOPE,
    "a large envelope": EnvelopeMessage(network=STATEMENTS, receipt=RECEIPT, observed_at=1, location="envelopes/1"),
    "a second look": SecondLookMessage(
        **{**SEEN, "replayed_since": 0}, look_id=TOKEN, subscription_ids=(str(SUBSCRIPTION),)
    ),
    "a repetition": RepetitionMessage(**SEEN, repeat_id=TOKEN, changed=(str(SUBSCRIPTION),)),
    "a page": PageMessage(**SEEN, span=Span(after="4", until="8"), page=2, token=TOKEN),
    "a remainder": RemainderMessage(**SEEN, subscription_ids=(str(SUBSCRIPTION),), look_id=TOKEN),
    "a push": PushMessage(
        network=STATEMENTS,
        receipt=RECEIPT,
        observed_at=1,
        envelope_id=b"\x01" * 32,
        subscription_id=SUBSCRIPTION,
        client_id=b"\x02" * 32,
        channel=Channel.FCM,
        wanted=Wanted.CALL,
        expires_at=9,
        body=StatementBody(sender=b"\x03" * 32, topic=b"\x04" * 32, data=b"\x05", truncated=True),
    ),
    "a command": CommandMessage(network=STATEMENTS, content=b"\x00\xff"),
    "a request to clean up": CleanupMessage(subscription_ids=(SUBSCRIPTION,), through=3),
    "a request to end a dead token's holders": DeadTokenMessage(
        token_hash=b"\x00\xff", app="second", environment="production", reason="Unregistered", at=2, since=1
    ),
}

FIRST_VERSION = {
    "an envelope": (
        json.dumps(
            {
                "version": 1,
                "network": "statements",
                "receipt": str(RECEIPT),
                "observed_at": 1,
                "raw": "AP8=",
                "kind": "envelope",
            }
        ),
        ENVELOPE,
    ),
    "a push": (
        json.dumps(
            {
                "version": 1,
                "network": "statements",
                "receipt": str(RECEIPT),
                "observed_at": 1,
                "envelope_id": "01",
                "subscription_id": str(SUBSCRIPTION),
                "client_id": "02",
                "channel": "apns",
                "expires_at": 9,
                "body": {"sender": "03", "topic": "04", "data": "05"},
            }
        ),
        PushMessage(
            network=STATEMENTS,
            receipt=RECEIPT,
            observed_at=1,
            envelope_id=b"\x01",
            subscription_id=SUBSCRIPTION,
            client_id=b"\x02",
            channel=Channel.APNS,
            expires_at=9,
            body=StatementBody(sender=b"\x03", topic=b"\x04", data=b"\x05"),
        ),
    ),
}
"""Messages as they may have waited in a queue, or lain in a dead-letter queue, since before every field that followed."""

READER = """
import base64, json, sys
from clarion import messages, tables

def bytes_of(value):
    if isinstance(value, dict):
        return {key: base64.b64decode(item) if key == "B" else bytes_of(item) for key, item in value.items()}
    return value

def text_of(value):
    if isinstance(value, dict):
        return {key: base64.b64encode(item).decode() if key == "B" else text_of(item) for key, item in value.items()}
    return value

def read(name, content):
    model = getattr(messages, name, None)
    if model:
        return json.loads(model.model_validate_json(json.dumps(content)).to_json())
    model = getattr(tables, name, None)
    return text_of(model.from_raw_data(bytes_of(content)).serialize()) if model else None

print(json.dumps([read(*each) for each in json.load(sys.stdin)]))
"""
"""The other version's part: it reads each and writes it again."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    return previous.unpack(folder, "layers/core", changed=previous.WRITTEN) / "layers" / "core"


def read_by(version: Path, written: list[tuple[str, Any]]) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", READER],
        env={**os.environ, "PYTHONPATH": str(version)},
        input=json.dumps(written).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answers: list[Any] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("name", FIRST_VERSION)
def test_a_message_of_the_first_version_is_understood(name: str) -> None:
    written, meant = FIRST_VERSION[name]
    assert type(meant).model_validate_json(written) == meant


OBSERVED = {name: message for name, message in WRITTEN.items() if isinstance(message, ObservedMessage)}


@pytest.mark.parametrize("name", OBSERVED)
def test_match_tells_the_messages_of_its_queue_apart(name: str) -> None:
    assert read_match_message(OBSERVED[name].to_json()) == OBSERVED[name]


def test_the_version_before_reads_our_messages_and_we_read_what_it_makes_of_them(before: Path) -> None:
    written = [(type(message).__name__, json.loads(message.to_json())) for message in WRITTEN.values()]
    for message, (_, ours), theirs in zip(WRITTEN.values(), written, read_by(before, written), strict=True):
        if theirs is None:
            continue  # a kind of message that is new
        assert theirs.items() <= ours.items()
        again = type(message).model_validate_json(json.dumps(theirs))
        assert again.model_dump(include=set(theirs)) == message.model_dump(include=set(theirs))


@pytest.mark.parametrize("name", ["a request to clean up", "a request to end a dead token's holders"])
def test_cleanup_tells_the_requests_of_its_queue_apart(name: str) -> None:
    assert read_cleanup_request(WRITTEN[name].to_json()) == WRITTEN[name]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_field_of_a_later_version_is_passed_over(name: str) -> None:
    message = WRITTEN[name]
    later = {**json.loads(message.to_json()), "colour": "red"}
    assert type(message).model_validate_json(json.dumps(later)) == message


@pytest.mark.parametrize("name", WRITTEN)
def test_a_later_version_of_a_message_is_not_taken_for_this_one(name: str) -> None:
    message = WRITTEN[name]
    later = {**json.loads(message.to_json()), "version": 2}
    with pytest.raises(ValidationError, match="version"):
        type(message).model_validate_json(json.dumps(later))


def full_row(model: type[Model]) -> dict[str, Any]:
    """A row that has every attribute."""
    return {attribute.attr_name: _some(attribute) for attribute in model.get_attributes().values()}


def _some(attribute: Attribute[Any]) -> dict[str, str | bool]:
    match attribute:
        case BinaryAttribute():
            return {"B": base64.b64encode(b"\x07").decode()}
        case NumberAttribute():
            return {"N": "7"}
        case BooleanAttribute():
            return {"BOOL": True}
    return {"S": "seven"}


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    models: list[type[Model]] = [*MODELS, PageLock]
    for model in models:
        yield model.__name__, full_row(model)


def test_the_version_before_reads_our_rows(before: Path) -> None:
    written = list(rows())
    for (name, ours), theirs in zip(written, read_by(before, written), strict=True):
        assert theirs is None or theirs.items() <= ours.items(), name


def test_an_attribute_of_a_later_version_is_passed_over() -> None:
    written = [(name, {**row, "colour": {"S": "red"}}) for name, row in rows()]
    core = previous.ROOT / "layers" / "core"
    assert read_by(core, written) == [row for _, row in rows()]


def test_a_row_of_the_first_version_is_understood() -> None:
    row = {
        "subscription_id": {"S": str(SUBSCRIPTION)},
        "client_id": {"B": b"\x02"},
        "network": {"S": "statements"},
        "channel": {"S": "apns"},
        "token": {"S": "a1" * 32},
        "status": {"S": "active"},
        "generation": {"N": "3"},
        "rule_count": {"N": "1"},
        "created_at": {"N": "5"},
        "updated_at": {"N": "6"},
    }
    subscription = Subscription.from_raw_data(row)
    assert (subscription.generation, subscription.token) == (3, "a1" * 32)
    assert not subscription.app
    assert not subscription.environment
    assert (subscription.revision, subscription.replaced) == (0, 0)
