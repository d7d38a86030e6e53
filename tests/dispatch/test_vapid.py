import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from clarion.providers.outcomes import Misconfigured
from clarion.providers.vapid import LIFETIME, MAX_ORIGINS, PERIOD, VapidCredential, VapidKey, vapid_token
from clarion.secrets import MAX_AGE, Secret
from local import keys
from tests.standins import NOW

GOOGLE = "https://fcm.googleapis.com"
APPLE = "https://web.push.apple.com"
SUBJECT = "mailto:push@example.com"


def secret_text(subject: str = SUBJECT) -> str:
    return json.dumps({"private_key": keys.generate_apns_key().private_key, "subject": subject})


@pytest.fixture
def worker_credential(secrets: Any, clock: Any) -> Callable[[], VapidCredential]:
    """The credential of one more worker, which knows nothing of the others."""
    secrets.texts["vapid"] = secret_text()
    return lambda: VapidCredential(Secret(secrets, "vapid", VapidKey, clock), clock)


@pytest.fixture
def credential(worker_credential: Callable[[], VapidCredential]) -> VapidCredential:
    return worker_credential()


def claims(credential: VapidCredential, origin: str) -> Any:
    """As a push service reads them, with the public key that comes with the token."""
    bearer = credential.bearer()
    assert isinstance(bearer, str)
    point = jwt.utils.base64url_decode(bearer)
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    token = credential.token(origin)
    assert jwt.get_unverified_header(token) == {"typ": "JWT", "alg": "ES256"}
    return jwt.decode(token, key, algorithms=["ES256"], audience=origin, options={"verify_exp": False})


@pytest.mark.parametrize("origin", [GOOGLE, APPLE, "https://localhost:8443"])
def test_a_token_is_signed_for_the_endpoints_origin(credential: VapidCredential, origin: str) -> None:
    assert claims(credential, origin) == {"aud": origin, "exp": NOW // PERIOD * PERIOD + LIFETIME, "sub": SUBJECT}


@given(now=st.integers(0, 4_000_000_000))
def test_a_token_ends_within_a_day_and_not_within_hours(now: int) -> None:
    key = VapidKey.model_validate_json(secret_text())

    token = vapid_token(key, now // PERIOD * PERIOD, GOOGLE)

    left = jwt.decode(token, options={"verify_signature": False})["exp"] - now
    assert 6 * 3600 <= left <= 24 * 3600


def test_an_origin_gets_one_token_for_hours_and_then_another(credential: VapidCredential, clock: Any) -> None:
    clock.seconds = NOW // PERIOD * PERIOD
    credential.bearer()
    first = credential.token(GOOGLE)

    clock.advance(PERIOD - 1)
    credential.bearer()
    assert credential.token(GOOGLE) == first
    clock.advance(1)
    credential.bearer()
    assert credential.token(GOOGLE) != first


def test_all_workers_show_the_same_token(worker_credential: Callable[[], VapidCredential]) -> None:
    workers = [worker_credential() for _ in range(2)]

    assert len({worker.bearer() for worker in workers}) == 1
    assert len({worker.token(GOOGLE) for worker in workers}) == 1


def test_a_token_is_signed_once_for_each_origin(credential: VapidCredential) -> None:
    credential.bearer()

    assert credential.token(GOOGLE) is credential.token(GOOGLE)
    assert credential.token(GOOGLE) != credential.token(APPLE)


def test_made_up_hosts_do_not_fill_the_memory(credential: VapidCredential) -> None:
    credential.bearer()
    first = credential.token(GOOGLE)

    for number in range(MAX_ORIGINS):
        credential.token(f"https://x{number}.notify.windows.com")

    again = credential.token(GOOGLE)
    assert again == first
    assert again is not first


def test_a_rotated_key_is_picked_up_with_tokens_of_its_own(
    credential: VapidCredential, secrets: Any, clock: Any
) -> None:
    before, version = credential.bearer(), credential.key_version
    secrets.texts["vapid"] = secret_text("https://example.com/contact")
    clock.advance(MAX_AGE + 1)

    assert credential.bearer() != before
    assert credential.key_version != version
    assert claims(credential, GOOGLE)["sub"] == "https://example.com/contact"


def test_renewing_says_whether_it_changed_anything(credential: VapidCredential, secrets: Any) -> None:
    credential.bearer()

    assert not credential.renew()
    assert not credential.alternate()
    secrets.texts["vapid"] = secret_text()
    assert credential.renew()
    del secrets.texts["vapid"]
    assert not credential.renew()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        json.dumps({"private_key": "sesame", "subject": SUBJECT}),
        json.dumps({"private_key": keys.generate_service_account().private_key, "subject": SUBJECT}),
        *(
            secret_text(subject)
            for subject in (
                *("", "push@example.com", "mailto:push@localhost", "mailto: push@example.com"),
                *("mailto:<push@example.com>", "http://example.com", "https://", "mailto:push@example.com\nx"),
            )
        ),
    ],
)
def test_a_secret_that_push_services_would_refuse_is_a_misconfiguration(
    credential: VapidCredential, secrets: Any, text: str
) -> None:
    secrets.texts["vapid"] = text

    outcome = credential.bearer()

    assert isinstance(outcome, Misconfigured)
    assert outcome.reason.startswith("secret: vapid is no VapidKey")
    assert "sesame" not in outcome.reason
    assert "PRIVATE" not in outcome.reason


def test_a_key_shows_its_public_half_only() -> None:
    key = VapidKey.model_validate_json(secret_text())

    point = jwt.utils.base64url_decode(key.public_key)
    assert (len(point), point[0]) == (65, 4)
    assert "private" not in repr(key)
