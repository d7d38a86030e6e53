import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.public import PrivateKey, SealedBox

from clarion.networks.zulip import RegistrationError, open_registration
from clarion.networks.zulip.registration import IOS_APP_ID, LIVENESS_TIMEOUT, MAX_TOKEN, token_id_of

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "zulip.json").read_text())
NOW, KEYS = VECTORS["now"], VECTORS["bouncer_keys"]
PRIVATE = PrivateKey.generate()
PUBLIC = b64encode(bytes(PRIVATE.public_key)).decode()
OURS = {PUBLIC: b64encode(bytes(PRIVATE)).decode()}
TOKEN = "c0ffee"
ANDROID = {"token": "android-tokenaz", "token_kind": "fcm", "timestamp": NOW}
IPHONE = {"token": TOKEN, "token_kind": "apns", "ios_app_id": "org.zulip.Zulip", "timestamp": NOW}

type Refusal = Callable[..., str]


def seal(registration: object) -> str:
    return seal_bytes(json.dumps(registration).encode())


def seal_bytes(content: bytes) -> str:
    return b64encode(SealedBox(PRIVATE.public_key).encrypt(content)).decode()


def refusal(sealed: str, *, token_id: str | None = None, public_key: str = PUBLIC, now: int = NOW) -> str:
    with pytest.raises(RegistrationError) as refused:
        open_registration(sealed, public_key, OURS, token_id=token_id, now=now)
    return refused.value.code


@pytest.mark.parametrize("vector", VECTORS["registrations"], ids=lambda vector: vector["case"])
def test_a_registration_is_opened_or_refused_as_zulips_bouncer_does(vector: dict[str, Any]) -> None:
    def opened() -> object:
        sealed, key = vector["encrypted_push_registration"], vector["bouncer_public_key"]
        return open_registration(sealed, key, KEYS, token_id=vector["token_id"], now=NOW)

    if vector["expect"] == "success":
        plain = json.loads(vector["plaintext"])
        assert opened() == open_plain(plain)
        return
    with pytest.raises(RegistrationError) as refused:
        opened()
    code, _, text = vector["expect"].partition(":")
    assert refused.value.code == code
    assert not text or str(refused.value) == text


def open_plain(plain: dict[str, Any]) -> object:
    """What the registration holds, by way of a key of ours."""
    return open_registration(seal(plain), PUBLIC, OURS, token_id=token_id_of(plain["token"]), now=NOW)


def test_the_vectors_are_all_there() -> None:
    assert {name: len(VECTORS[name]) for name in ("token_id", "registrations")} == {"token_id": 6, "registrations": 11}


@pytest.mark.parametrize("vector", VECTORS["token_id"], ids=lambda vector: vector["token"][:12])
def test_a_token_is_known_by_the_beginning_of_its_hash(vector: dict[str, Any]) -> None:
    assert token_id_of(vector["token"]) == vector["token_id"]


def test_the_token_keeps_its_case() -> None:
    upper = {**IPHONE, "token": "C0FFEE"}
    opened = open_registration(seal(upper), PUBLIC, OURS, token_id=token_id_of("C0FFEE"), now=NOW)
    assert opened.token == "C0FFEE"
    assert refusal(seal(upper), token_id=token_id_of("c0ffee")) == "BAD_REQUEST"


@pytest.mark.parametrize(("age", "fine"), [(LIVENESS_TIMEOUT, True), (LIVENESS_TIMEOUT + 1, False), (-(10**9), True)])
@pytest.mark.parametrize("token_id", [None, token_id_of(TOKEN)])
def test_a_day_old_registration_is_fine_and_one_of_the_future_too(age: int, fine: bool, token_id: str | None) -> None:
    sealed = seal({**IPHONE, "timestamp": NOW - age})
    if fine:
        assert open_registration(sealed, PUBLIC, OURS, token_id=token_id, now=NOW).token == TOKEN
    else:
        assert refusal(sealed, token_id=token_id) == "REQUEST_EXPIRED"


def test_flaws_are_found_in_the_references_order() -> None:
    """Each has the flaws of those after it, too."""
    stale = NOW - LIVENESS_TIMEOUT - 1
    worse = {**IPHONE, "timestamp": stale, "token_kind": "neither"}
    assert refusal(seal(worse), token_id="AAAA", public_key="unknown") == "INVALID_BOUNCER_PUBLIC_KEY"
    assert refusal(seal(worse), token_id="AAAA") == "BAD_REQUEST"
    assert refusal(seal({**IPHONE, "timestamp": stale}), token_id="AAAA") == "BAD_REQUEST"
    assert refusal(seal({**IPHONE, "timestamp": stale}), token_id=token_id_of(TOKEN)) == "REQUEST_EXPIRED"


@pytest.mark.parametrize(
    "timestamp", [NOW, float(NOW), "2023-11-14T22:13:20Z", "2023-11-14T22:13:20", "2023-11-14T23:13:20+01:00"]
)
def test_the_proposal_has_seconds_or_a_text_and_no_app(timestamp: object) -> None:
    plain = {"token": TOKEN, "token_kind": "apns", "timestamp": timestamp}
    assert open_registration(seal(plain), PUBLIC, OURS, now=NOW + LIVENESS_TIMEOUT).ios_app_id == IOS_APP_ID
    assert refusal(seal(plain), now=NOW + LIVENESS_TIMEOUT + 1) == "REQUEST_EXPIRED"


@pytest.mark.parametrize(
    "flawed",
    [
        {**IPHONE, "ios_app_id": None},
        {**IPHONE, "timestamp": str(NOW)},
        {**IPHONE, "timestamp": "2023-11-14T22:13:20Z"},
        {**IPHONE, "timestamp": True},
        {**ANDROID, "ios_app_id": "org.zulip.Zulip"},
        {**IPHONE, "token": "c0ffe"},
        {**IPHONE, "token": "c0 ff ee"},
        {**IPHONE, "token": "c0ffee\n"},
        {**IPHONE, "ios_app_id": "org.zulip.Zulip\n"},
        {**ANDROID, "token": 12},
        {name: value for name, value in ANDROID.items() if name != "timestamp"},
        [],
        "c0ffee",
        None,
    ],
)
def test_what_zulip_12_would_not_ship_is_a_bad_request(flawed: Any) -> None:
    token = flawed.get("token") if isinstance(flawed, dict) else None
    assert refusal(seal(flawed), token_id=token_id_of(str(token))) == "BAD_REQUEST"


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"[" * 10_000, b'{"timestamp": NaN}', b"1e999"])
@pytest.mark.parametrize("token_id", [None, "AAAA"])
def test_what_is_no_json_is_a_bad_request(content: bytes, token_id: str | None) -> None:
    assert refusal(seal_bytes(content), token_id=token_id) == "BAD_REQUEST"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_no_number_escapes_the_check_of_its_age(number: str) -> None:
    content = json.dumps({**ANDROID, "timestamp": "?"}).replace('"?"', number)
    assert refusal(seal_bytes(content.encode())) == "BAD_REQUEST"


@pytest.mark.parametrize("length", [1, MAX_TOKEN])
def test_a_token_may_be_as_long_as_that(length: int) -> None:
    token = "t" * length
    sealed = seal({**ANDROID, "token": token})
    assert open_registration(sealed, PUBLIC, OURS, token_id=token_id_of(token), now=NOW).token == token
    assert refusal(seal({**ANDROID, "token": token * 2 * MAX_TOKEN}), token_id="AAAA") == "BAD_REQUEST"


@given(sealed=st.text() | st.binary(max_size=200).map(lambda content: b64encode(content).decode()))
def test_anything_else_is_a_bad_request(sealed: str) -> None:
    assert refusal(sealed) == "BAD_REQUEST"


@given(token_id=st.text())
def test_another_token_id_is_a_bad_request(token_id: str) -> None:
    assert refusal(seal(ANDROID), token_id=token_id) == "BAD_REQUEST"


def test_neither_the_token_nor_what_was_sealed_shows() -> None:
    opened = open_registration(seal(IPHONE), PUBLIC, OURS, token_id=token_id_of(TOKEN), now=NOW)
    assert TOKEN not in repr(opened)
    with pytest.raises(RegistrationError) as refused:
        open_registration(seal({**IPHONE, "ios_app_id": "?"}), PUBLIC, OURS, token_id=token_id_of(TOKEN), now=NOW)
    assert TOKEN not in repr(refused.value)
    assert refused.value.__cause__ is None
