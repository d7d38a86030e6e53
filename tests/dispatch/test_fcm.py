import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clarion.networks import FcmMessage
from clarion.providers.fcm import FcmApp, FcmPush, refusal
from clarion.providers.outcomes import (
    Answered,
    CredentialRejected,
    Delivered,
    Misconfigured,
    Refused,
    RetryLater,
    TokenGone,
    TokenOrApp,
    TokenOrPayload,
)
from clarion.providers.sender import send
from clarion.providers.transport import Answer, Transport
from local.fcm import ERRORS, Fcm

MESSAGE: FcmMessage = {"data": {"sender": "00"}, "android": {"priority": "high"}}

words = st.sampled_from(["error", "status", "details", "errorCode", "fieldViolations", "field", "INTERNAL", "x"])
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
).map(lambda document: json.dumps(document).encode())
"""JSON of Google's words in the wrong places."""

# From Google's table, https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode
MEANING = {
    "UNREGISTERED": TokenGone,
    "INVALID_ARGUMENT": TokenOrPayload,
    "SENDER_ID_MISMATCH": TokenOrApp,
    "THIRD_PARTY_AUTH_ERROR": Misconfigured,
    "QUOTA_EXCEEDED": RetryLater,
    "UNAVAILABLE": RetryLater,
    "INTERNAL": RetryLater,
}


@pytest.fixture
def push(transport: Transport, fcm_app: FcmApp) -> Callable[[str], Answered]:
    """Send one push to the stand-in."""

    def push(token: str) -> Answered:
        (outcome,) = send(transport, [FcmPush(app=fcm_app, token=token, message=MESSAGE, ttl=60)])
        return outcome

    return push


def error(status: int, canonical: str, *details: dict[str, Any]) -> Answer:
    return Answer(status, json.dumps({"error": {"status": canonical, "details": list(details)}}).encode())


def test_every_code_that_google_documents_is_in_the_table() -> None:
    assert set(MEANING) == set(ERRORS)


@pytest.mark.parametrize(("code", "meaning"), MEANING.items())
def test_a_code_means_what_google_says(push: Callable[[str], Answered], code: str, meaning: type[Answered]) -> None:
    answer = push(f"{code}-device")

    assert (type(answer), answer.reason) == (meaning, code)


def test_a_delivered_push_is_known_by_the_name_that_fcm_gave_it(push: Callable[[str], Answered], fcm: Fcm) -> None:
    outcome = push("device")

    assert outcome == Delivered(status=200, provider_id=fcm.received[0].push_id)
    assert fcm.received[0].payload["message"]["android"] == {"priority": "high", "ttl": "60s"}


def test_an_invalid_argument_is_in_doubt_unless_google_names_what_is_invalid() -> None:
    code = {"errorCode": "INVALID_ARGUMENT"}
    about_the_token = {"fieldViolations": [{"field": "message.token", "description": "Invalid registration token"}]}
    about_the_data = {"fieldViolations": [{"field": "message.data", "description": "too big"}]}

    assert isinstance(refusal(error(400, "INVALID_ARGUMENT", code, about_the_token)), TokenGone)
    assert isinstance(refusal(error(400, "INVALID_ARGUMENT", code, about_the_data)), Refused)
    assert isinstance(refusal(error(400, "INVALID_ARGUMENT", code)), TokenOrPayload)


def test_not_found_without_unregistered_is_about_the_project() -> None:
    assert refusal(error(404, "NOT_FOUND")) == Misconfigured(status=404, reason="NOT_FOUND")


def test_another_projects_token_is_in_doubt_and_an_iphones_stops_nobody_else(push: Callable[[str], Answered]) -> None:
    assert isinstance(push("SENDER_ID_MISMATCH-device"), TokenOrApp)
    iphone = push("THIRD_PARTY_AUTH_ERROR-device")
    assert isinstance(iphone, Misconfigured)
    assert not iphone.whole_app


def test_an_access_token_that_is_not_accepted_is_a_rejected_credential() -> None:
    assert refusal(error(401, "UNAUTHENTICATED")) == CredentialRejected(status=401, reason="UNAUTHENTICATED")


@pytest.mark.parametrize(
    ("code", "seconds"),
    [("QUOTA_EXCEEDED", 60), ("UNAVAILABLE", 10), ("INTERNAL", 10), ("UNAVAILABLE-AFTER45", 45)],
)
def test_a_retry_waits_as_long_as_google_asks(push: Callable[[str], Answered], code: str, seconds: float) -> None:
    outcome = push(f"{code}-device")

    assert isinstance(outcome, RetryLater)
    assert outcome.after == seconds


@given(status=st.integers(300, 599), body=st.one_of(st.binary(max_size=200), documents))
@example(400, b"[" * 16_000)
@example(404, b'{"error":' * 2_000)
@example(400, b'{"error": {"status": "INVALID_ARGUMENT", "details": [{"fieldViolations": [{"field": []}]}]}}')
@example(400, b'{"error": {"details": 7}}')
def test_an_answer_that_can_not_be_read_never_kills_a_token(status: int, body: bytes) -> None:
    assert not isinstance(refusal(Answer(status, body)), TokenGone | TokenOrPayload | TokenOrApp)


def test_the_without_payload_is_sent_to_be_judged_and_reaches_no_phone(
    transport: Transport, fcm_app: FcmApp, fcm: Fcm
) -> None:
    push = FcmPush(app=fcm_app, token="device", message=MESSAGE, ttl=60)

    (outcome,) = send(transport, [push.without_payload()])

    assert isinstance(outcome, Delivered)
    assert len(fcm.received) == 0
