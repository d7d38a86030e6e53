import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.providers.apns import ApnsApp, ApnsPush, PushType, refusal
from clarion.providers.outcomes import (
    Answered,
    Delivered,
    Misconfigured,
    Refused,
    RetryLater,
    TokenGone,
    TokenOrApp,
)
from clarion.providers.sender import send
from clarion.providers.transport import Answer, Request, Transport
from local.apns import Apns
from local.apns_trouble import REASONS, troubled_token
from local.provider import InjectedFault

NOW = 1_800_000_000
PUSH_ID = "6d3f6a1e-1c2b-8a4d-8f00-0123456789ab"

# From Apple's table, https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
MEANING = {
    TokenGone: {"Unregistered", "ExpiredToken"},
    TokenOrApp: {"BadDeviceToken", "DeviceTokenNotForTopic"},
    RetryLater: {
        *("IdleTimeout", "TooManyRequests", "TooManyProviderTokenUpdates"),
        *("InternalServerError", "ServiceUnavailable", "Shutdown"),
    },
    Misconfigured: {
        *("TopicDisallowed", "Forbidden", "BadCertificate", "BadCertificateEnvironment", "ExpiredProviderToken"),
        *("InvalidProviderToken", "MissingProviderToken", "UnrelatedKeyIdInToken", "BadEnvironmentKeyIdInToken"),
    },
    Refused: {
        *("BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic", "DuplicateHeaders"),
        *("InvalidPushType", "MissingDeviceToken", "MissingTopic", "PayloadEmpty", "BadPath", "MethodNotAllowed"),
        "PayloadTooLarge",
    },
}


@pytest.fixture
def push(transport: Transport, apns_app: ApnsApp) -> Callable[..., Answered]:
    """Send one push to the stand-in."""

    def push(token: str = "a1" * 32, **changes: Any) -> Answered:
        fields = {"body": b'{"aps": {}}', "push_type": PushType.ALERT, "push_id": PUSH_ID} | changes
        (outcome,) = send(transport, [ApnsPush(app=apns_app, token=token, **fields)])
        return outcome

    return push


def test_every_reason_that_apple_documents_is_in_the_table() -> None:
    assert set().union(*MEANING.values()) == {reason for reasons in REASONS.values() for reason in reasons}


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [(reason, meaning) for meaning, reasons in MEANING.items() for reason in sorted(reasons)],
)
def test_a_reason_means_what_apple_says(push: Callable[..., Answered], reason: str, meaning: type[Answered]) -> None:
    answer = push(troubled_token(InjectedFault(reason)))

    assert (type(answer), answer.reason) == (meaning, reason)


def test_a_delivered_push_is_known_by_the_id_that_we_gave_it(push: Callable[..., Answered]) -> None:
    assert push() == Delivered(status=200, provider_id=PUSH_ID)


def test_a_dead_token_tells_since_when(push: Callable[..., Answered]) -> None:
    outcome = push(troubled_token(InjectedFault("Unregistered", ago=60)))

    assert outcome == TokenGone(status=410, reason="Unregistered", since=(NOW - 60) * 1000)


def test_retry_after_is_passed_on(push: Callable[..., Answered]) -> None:
    outcome = push(troubled_token(InjectedFault("ServiceUnavailable", retry_after=37)))

    assert outcome == RetryLater(status=503, reason="ServiceUnavailable", after=37)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"reason": "SomethingNew"}'),
        (410, b"not json"),
        (400, b""),
        (404, b'["Unregistered"]'),
        (400, b'{"reason": "Unregistered"}'),
        (503, b'{"reason": "BadDeviceToken"}'),
        (410, b"[" * 16_000),
        (410, b'{"reason":' * 1_600),
        (410, b'{"reason": "\\ud800"}'),
        (410, b'{"reason": "Unregistered", "timestamp": ' + b"9" * 16_000 + b"}"),
    ],
)
def test_an_answer_that_apple_does_not_document_never_kills_a_token(status: int, body: bytes) -> None:
    assert not isinstance(refusal(Answer(status, body)), TokenGone | TokenOrApp)


@given(status=st.integers(300, 599), body=st.binary(max_size=200))
def test_no_answer_is_beyond_reading(status: int, body: bytes) -> None:
    assert not isinstance(refusal(Answer(status, body)), TokenGone | TokenOrApp)


def test_an_unknown_failure_of_the_server_is_tried_again() -> None:
    assert isinstance(refusal(Answer(502, b"<html>")), RetryLater)


def test_a_gone_token_without_a_timestamp_is_gone() -> None:
    assert refusal(Answer(410, b'{"reason": "Unregistered"}')) == TokenGone(status=410, reason="Unregistered")


def test_a_timestamp_that_is_no_number_is_not_believed() -> None:
    assert isinstance(refusal(Answer(410, b'{"reason": "Unregistered", "timestamp": "soon"}')), Refused)


def test_a_topic_of_the_callers_own_replaces_the_apps(apns: Apns, push: Callable[..., Answered]) -> None:
    outcome = push(topic="io.pcf.another")

    assert outcome.reason == "TopicDisallowed"
    assert apns.received[0].headers["apns-topic"] == "io.pcf.another"


def test_a_request_shows_neither_token_nor_key() -> None:
    request = Request("https://provider/3/device/a1b2", ["authorization: bearer eyJ"], b"body", "lane")

    assert repr([request]) == "[Request(lane='lane')]"


def test_a_push_shows_no_token(apns_app: ApnsApp) -> None:
    push = ApnsPush(
        app=apns_app, token="a1b2c3", body=json.dumps("data").encode(), push_type=PushType.ALERT, push_id=""
    )

    assert "a1b2c3" not in repr(push)
    assert "data" not in repr(push)
