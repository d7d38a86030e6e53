import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from clarion.providers.apns import ApnsApp
from clarion.providers.credentials import (
    APNS_PERIOD,
    EXCHANGE_PAUSE,
    ApnsCredential,
    ApnsKey,
    GoogleAccount,
    GoogleCredential,
    apns_token,
)
from clarion.providers.fcm import FcmApp
from clarion.providers.outcomes import CredentialRejected, Misconfigured, RetryLater
from clarion.providers.transport import Transport
from clarion.secrets import MAX_AGE, RETRY_SECONDS, Secret, SecretError
from local import keys
from local.fcm import Fcm
from local.http2 import Response, ServedAnswer

NOW = 1_800_000_000.0
UNKNOWN_CURVE = "MDoCAQAwEAYHKoZIzj0CAQYFK4EEACAEIzAhAgEBBBwBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"


@pytest.fixture
def worker_credential(secrets: Any, clock: Any) -> Callable[[], ApnsCredential]:
    """The credential of one more worker, which knows nothing of the others."""
    return lambda: ApnsCredential(Secret(secrets, "apns", ApnsKey, clock), clock)


def rewrite(secrets: Any, name: str, **changes: str) -> None:
    secrets.texts[name] = json.dumps(json.loads(secrets.texts[name]) | changes)


def test_all_workers_show_apple_the_same_token(worker_credential: Callable[[], ApnsCredential], clock: Any) -> None:
    first = worker_credential().bearer()
    clock.seconds = NOW // APNS_PERIOD * APNS_PERIOD + APNS_PERIOD - 1

    assert worker_credential().bearer() == first
    clock.advance(1)
    assert worker_credential().bearer() != first


def test_a_provider_token_is_signed_as_apple_asks(apns_app: ApnsApp, apns_key: keys.ApnsKeyPair) -> None:
    token = apns_app.credential.bearer()

    assert isinstance(token, str)
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": apns_key.key_id}
    claims = jwt.decode(token, apns_key.public_key, algorithms=["ES256"], options={"verify_iat": False})
    assert claims == {"iss": apns_key.team_id, "iat": NOW // APNS_PERIOD * APNS_PERIOD}


@given(start=st.integers(0, 4_000_000_000), steps=st.lists(st.integers(0, 5_000), max_size=50))
def test_tokens_are_always_younger_than_an_hour_and_at_least_twenty_minutes_apart(start: int, steps: list[int]) -> None:
    now = start
    seen: list[int] = []
    for step in steps:
        now += step
        issued_at = now // APNS_PERIOD * APNS_PERIOD
        assert 0 <= now - issued_at < 3600
        if issued_at not in seen:
            assert not seen or issued_at - seen[-1] >= 1200
            seen.append(issued_at)


def test_a_key_on_a_curve_that_is_not_known_is_as_wrong_as_any() -> None:
    """Of secp224k1."""
    pem = f"-----BEGIN PRIVATE KEY-----\n{UNKNOWN_CURVE}\n-----END PRIVATE KEY-----\n"
    with pytest.raises(ValidationError, match="a kind that is not known"):
        ApnsKey(key_id="any", team_id="any", private_key=pem)


def test_a_rotated_key_is_picked_up_without_a_rejection(apns_app: ApnsApp, secrets: Any, clock: Any) -> None:
    before = apns_app.credential.bearer()
    rewrite(secrets, "apns", private_key=keys.generate_apns_key().private_key)

    assert apns_app.credential.bearer() == before
    clock.advance(MAX_AGE + 1)
    assert apns_app.credential.bearer() != before


def test_renewing_says_whether_it_changed_anything(apns_app: ApnsApp, secrets: Any) -> None:
    apns_app.credential.bearer()

    assert not apns_app.credential.renew()
    rewrite(secrets, "apns", private_key=keys.generate_apns_key().private_key)
    assert apns_app.credential.renew()


def test_an_access_token_is_fetched_once_and_again_before_it_ends(fcm_app: FcmApp, clock: Any) -> None:
    first = fcm_app.credential.bearer()

    clock.advance(3_200)
    assert fcm_app.credential.bearer() == first
    clock.advance(200)
    assert isinstance(fcm_app.credential.bearer(), str)
    assert fcm_app.credential.bearer() != first


def test_another_service_account_gets_an_access_token_of_its_own(fcm_app: FcmApp, secrets: Any, clock: Any) -> None:
    first = fcm_app.credential.bearer()
    rewrite(secrets, "fcm", private_key_id="another")
    clock.advance(MAX_AGE + 1)

    assert fcm_app.credential.bearer() != first


def test_a_key_that_google_does_not_know_is_a_rejected_credential(fcm_app: FcmApp, secrets: Any) -> None:
    rewrite(secrets, "fcm", private_key=keys.generate_service_account().private_key)

    assert fcm_app.credential.bearer() == CredentialRejected(status=400, reason="oauth: invalid_grant")


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"null", b"{}", b'{"access_token": "", "expires_in": 3599}', b'{"access_token": "ya29"}'],
)
def test_a_token_endpoint_that_answers_something_else_is_asked_again_later(
    fcm_app: FcmApp, fcm: Any, body: bytes
) -> None:
    fcm.exchange = ServedAnswer(Response(200, body=body))

    assert fcm_app.credential.bearer() == RetryLater(status=None, reason="oauth: unreadable answer")


@pytest.mark.parametrize(
    ("status", "retry_after", "pause"), [(200, None, EXCHANGE_PAUSE), (503, None, EXCHANGE_PAUSE), (429, 30, 30)]
)
def test_a_token_endpoint_that_failed_is_left_alone_for_a_while(
    fcm_app: FcmApp, fcm: Any, clock: Any, status: int, retry_after: int | None, pause: float
) -> None:
    headers = () if retry_after is None else (("retry-after", str(retry_after)),)
    fcm.exchange = ServedAnswer(Response(status, headers))
    failed = fcm_app.credential.bearer()
    fcm.exchange = None

    clock.advance(pause - 1)
    assert fcm_app.credential.bearer() == failed
    assert fcm.exchanges == 1
    clock.advance(1)
    assert isinstance(fcm_app.credential.bearer(), str)


def test_a_key_that_google_refused_is_not_shown_again_until_it_is_another(
    fcm_app: FcmApp, fcm: Any, account: keys.ServiceAccount, secrets: Any
) -> None:
    rewrite(secrets, "fcm", private_key=keys.generate_service_account().private_key)
    fcm_app.credential.bearer()

    assert not fcm_app.credential.renew()
    assert isinstance(fcm_app.credential.bearer(), CredentialRejected)
    assert fcm.exchanges == 1

    rewrite(secrets, "fcm", private_key=account.private_key)
    assert fcm_app.credential.renew()
    assert isinstance(fcm_app.credential.bearer(), str)


def test_a_secret_that_is_not_there_is_a_misconfiguration(secrets: Any, clock: Any) -> None:
    credential = ApnsCredential(Secret(secrets, "nowhere", ApnsKey, clock), clock)

    assert credential.bearer() == Misconfigured(status=None, reason="secret: ResourceNotFoundException")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"key_id": "K", "team_id": "T"}',
        '{"key_id": "K", "team_id": "T", "private_key": 7}',
        '{"key_id": "K", "team_id": "T", "private_key": "sesame"}',
        json.dumps({"key_id": "K", "team_id": "T", "private_key": keys.generate_service_account().private_key}),
    ],
)
def test_a_secret_that_holds_no_key_is_a_misconfiguration_that_tells_nothing_of_it(
    secrets: Any, clock: Any, text: str
) -> None:
    secrets.texts["apns"] = text

    outcome = ApnsCredential(Secret(secrets, "apns", ApnsKey, clock), clock).bearer()

    assert isinstance(outcome, Misconfigured)
    assert outcome.reason.startswith("secret: apns is no ApnsKey")
    assert "sesame" not in outcome.reason
    assert "PRIVATE" not in outcome.reason


def test_a_broken_rotation_leaves_the_good_key_in_use(apns_app: ApnsApp, secrets: Any, clock: Any) -> None:
    good = apns_app.credential.bearer()
    secrets.texts["apns"] = "{}"
    clock.advance(MAX_AGE + 1)

    assert apns_app.credential.bearer() == good
    assert not apns_app.credential.renew()


def test_a_secret_that_can_not_be_read_now_is_not_looked_at_for_each_push(
    apns_app: ApnsApp, secrets: Any, clock: Any
) -> None:
    good, text = apns_app.credential.bearer(), secrets.texts.pop("apns")
    clock.advance(MAX_AGE + 1)

    assert {apns_app.credential.bearer() for _ in range(100)} == {good}
    assert secrets.read == 2
    secrets.texts["apns"] = text
    clock.advance(RETRY_SECONDS + 1)
    assert apns_app.credential.bearer() == good
    assert secrets.read == 3


def test_a_secret_is_read_once_in_minutes(apns_app: ApnsApp, secrets: Any, clock: Any) -> None:
    for _ in range(100):
        apns_app.credential.bearer()
        clock.advance(MAX_AGE / 100)

    assert secrets.read == 1


def test_keys_are_never_shown(apns_key: keys.ApnsKeyPair, account: keys.ServiceAccount) -> None:
    shown = [
        ApnsKey(key_id="K", team_id="T", private_key=apns_key.private_key),
        GoogleAccount.model_validate_json(account.as_json("https://oauth")),
    ]

    for key in shown:
        assert "private_key" not in repr(key)
        assert "PRIVATE" not in str(key.model_fields_set) + str(key)


def test_the_error_of_a_secret_names_fields_and_not_values(secrets: Any) -> None:
    class Model(BaseModel):
        number: int

    secrets.texts["model"] = '{"number": "a made-up secret"}'

    with pytest.raises(SecretError) as caught:
        Secret(secrets, "model", Model).get()

    assert str(caught.value) == "model is no Model (number: int_parsing)"
    assert not isinstance(caught.value.__cause__, ValidationError)


def test_the_google_token_of_a_frozen_worker_is_not_used_after_its_end(
    fcm: Fcm, fcm_app: FcmApp, transport: Transport, secrets: Any, clock: Any
) -> None:
    credential = GoogleCredential(Secret(secrets, "fcm", GoogleAccount, clock), transport, clock)
    first = credential.bearer()
    clock.advance(7 * 24 * 3600)

    assert credential.bearer() != first


def test_equal_key_and_period_make_equal_tokens(apns_key: keys.ApnsKeyPair) -> None:
    made = [ApnsKey(key_id="K", team_id="T", private_key=apns_key.private_key) for _ in range(2)]

    assert len({apns_token(key, 1_799_999_000) for key in made}) == 1
