import json
from collections.abc import Callable
from typing import Any

import pytest

from clarion.decisions import PushDecision
from clarion.payload import FcmMessage
from clarion.providers.fcm import FcmApp, FcmPush, refusal
from clarion.providers.outcomes import (
    CredentialRejected,
    Delivered,
    Misconfigured,
    Outcome,
    Refused,
    RetryLater,
    TokenGone,
)
from clarion.providers.sender import send
from clarion.providers.transport import Answer, Transport
from local.fcm import ERRORS, Fcm

MESSAGE: FcmMessage = {"data": {"sender_pubkey": "00"}, "android": {"priority": "high"}}

# From Google's table, https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode
MEANING = {
    "UNREGISTERED": PushDecision.TOKEN_GONE,
    "INVALID_ARGUMENT": PushDecision.REFUSED,
    "SENDER_ID_MISMATCH": PushDecision.MISCONFIGURED,
    "THIRD_PARTY_AUTH_ERROR": PushDecision.MISCONFIGURED,
    "QUOTA_EXCEEDED": PushDecision.RETRY,
    "UNAVAILABLE": PushDecision.RETRY,
    "INTERNAL": PushDecision.RETRY,
}


@pytest.fixture
def push(transport: Transport, fcm_app: FcmApp) -> Callable[[str], Outcome]:
    """Send one push to the stand-in."""

    def push(token: str) -> Outcome:
        (outcome,) = send(transport, [FcmPush(app=fcm_app, token=token, message=MESSAGE, ttl=60)])
        return outcome

    return push


def error(status: int, canonical: str, *details: dict[str, Any]) -> Answer:
    return Answer(status, json.dumps({"error": {"status": canonical, "details": list(details)}}).encode())


def test_every_code_that_google_documents_is_in_the_table() -> None:
    assert set(MEANING) == set(ERRORS)


@pytest.mark.parametrize(("code", "decision"), MEANING.items())
def test_a_code_means_what_google_says(push: Callable[[str], Outcome], code: str, decision: PushDecision) -> None:
    outcome = push(f"{code}-device")

    assert (outcome.decision, outcome.reason) == (decision, code)


def test_a_delivered_push_is_known_by_the_name_that_fcm_gave_it(push: Callable[[str], Outcome], fcm: Fcm) -> None:
    outcome = push("device")

    assert outcome == Delivered(status=200, provider_id=fcm.received[0].push_id)
    assert fcm.received[0].payload["message"]["android"] == {"priority": "high", "ttl": "60s"}


def test_an_invalid_argument_kills_the_token_only_if_google_names_the_token() -> None:
    code = {"errorCode": "INVALID_ARGUMENT"}
    about_the_token = {"fieldViolations": [{"field": "message.token", "description": "Invalid registration token"}]}
    about_the_data = {"fieldViolations": [{"field": "message.data", "description": "too big"}]}

    assert isinstance(refusal(error(400, "INVALID_ARGUMENT", code, about_the_token)), TokenGone)
    assert isinstance(refusal(error(400, "INVALID_ARGUMENT", code, about_the_data)), Refused)
    assert isinstance(refusal(error(400, "INVALID_ARGUMENT", code)), Refused)


def test_not_found_without_unregistered_is_about_the_project() -> None:
    assert refusal(error(404, "NOT_FOUND")) == Misconfigured(status=404, reason="NOT_FOUND")


def test_someone_elses_token_does_not_stop_the_whole_app(push: Callable[[str], Outcome]) -> None:
    outcome = push("SENDER_ID_MISMATCH-device")

    assert isinstance(outcome, Misconfigured)
    assert not outcome.whole_app


def test_an_access_token_that_is_not_accepted_is_a_rejected_credential() -> None:
    assert refusal(error(401, "UNAUTHENTICATED")) == CredentialRejected(status=401, reason="UNAUTHENTICATED")


@pytest.mark.parametrize(
    ("code", "seconds"),
    [("QUOTA_EXCEEDED", 60), ("UNAVAILABLE", 10), ("INTERNAL", 10), ("UNAVAILABLE-AFTER45", 45)],
)
def test_a_retry_waits_as_long_as_google_asks(push: Callable[[str], Outcome], code: str, seconds: float) -> None:
    outcome = push(f"{code}-device")

    assert isinstance(outcome, RetryLater)
    assert outcome.after == seconds


@pytest.mark.parametrize("body", [b"", b"[]", b'{"error": "no"}', b'{"error": {"details": 7}}', b"<html>"])
def test_an_answer_that_can_not_be_read_never_kills_a_token(body: bytes) -> None:
    for status in (400, 404, 410, 500):
        assert not isinstance(refusal(Answer(status, body)), TokenGone)
