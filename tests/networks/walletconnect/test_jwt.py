import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion import base64url, compact_json
from clarion.networks.walletconnect import InvalidJwt, JwtFlaw, issue, profile_of, verify
from clarion.networks.walletconnect.acts import ACTS, LONG, SHORT, Profile
from clarion.networks.walletconnect.jwt import CLOCK_SKEW, HEADER, message_hash, subscription_hash
from tests.networks.walletconnect.conftest import Vector, read
from tests.walletconnect import Wallet

PROFILES: Mapping[str, Profile] = {"seed-spec": "document", "shipped": "shipped"}
NOW = read()["now"]
VALID = [one for one in read()["vectors"] if one["expect"]["strict"] == "ok"]
(SUBSCRIPTION,) = [one for one in VALID if one["act"] == "notify_subscription"]
AUDIENCE, APP = SUBSCRIPTION["expected_aud"], SUBSCRIPTION["expected_app"]
CLAIMS = {name: value for name, value in SUBSCRIPTION["claims"].items() if name not in {"iat", "exp", "iss", "act"}}
"""What a wallet says in a shipped request to subscribe."""
REQUIRED = ["iat", "exp", "iss", "act", "aud", "app", "sub", "scp", "ksu"]
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists)


def outcome(token: str, **others: Any) -> str:
    """Of a request to subscribe, if nothing else is said."""
    request: dict[str, Any] = {"act": "notify_subscription", "now": NOW, "audience": AUDIENCE, "app": APP}
    try:
        verify(token, **(request | {"profile": "shipped"} | others))
    except InvalidJwt as refused:
        return refused.reason
    return "ok"


def subscription(wallet: Wallet, now: int = NOW, **claims: Any) -> str:
    return issue(wallet.identity_key, CLAIMS | claims, act="notify_subscription", now=now, profile="shipped")


def signed(wallet: Wallet, claims: object, header: object = HEADER) -> str:
    return signed_bytes(wallet, compact_json.encode(header), compact_json.encode(claims))


def signed_bytes(wallet: Wallet, header: bytes, claims: bytes) -> str:
    text = f"{base64url.encode(header)}.{base64url.encode(claims)}"
    return f"{text}.{base64url.encode(wallet.identity_key.sign(text.encode()))}"


def claims_of(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = json.loads(base64url.decode(token.split(".")[1]))
    return claims


def test_a_token_is_taken_or_refused_as_the_specification_has_it(token_vector: Vector) -> None:
    found = outcome(
        token_vector["jwt"],
        act=token_vector["act"],
        now=token_vector["now"],
        audience=token_vector["expected_aud"],
        app=token_vector["expected_app"],
        profile=PROFILES[token_vector["profile"]],
    )
    assert found == token_vector["expect"]["strict"]
    assert ACTS[PROFILES[token_vector["profile"]]][token_vector["act"]].ttl == token_vector["ttl"]


@pytest.mark.parametrize("vector", VALID, ids=lambda vector: f"{vector['profile']} {vector['act']}")
def test_the_claims_come_back(vector: Vector) -> None:
    profile = PROFILES[vector["profile"]]
    assert (
        verify(vector["jwt"], act=vector["act"], now=NOW, audience=None, app=None, profile=profile) == vector["claims"]
    )


def test_what_the_real_client_sent_or_took_is_judged_as_it_was(signed_publish: Vector) -> None:
    claims = signed_publish["claims"]
    # The capture has a message that says to be another act, which its client refused.
    act = "notify_message" if "msg" in claims else claims["act"]
    at = int(read()["live_capture"]["publishes"][0]["claims"]["iat"]) + 2
    expected = "wrong_act" if act != claims["act"] else signed_publish["jwt_python"]
    assert outcome(signed_publish["jwt"], act=act, now=at, audience=None, app=None) == expected


@pytest.mark.parametrize(("profile", "act"), [(profile, act) for profile in ACTS for act in ACTS[profile]])
def test_an_issued_token_is_taken_until_it_expires(wallet: Wallet, profile: Profile, act: str) -> None:
    (example, *_) = [one for one in read()["vectors"] if (PROFILES[one["profile"]], one["act"]) == (profile, act)]
    claims = {name: value for name, value in claims_of(example["jwt"]).items() if name not in {"iat", "exp", "iss"}}
    claims["sub"] = claims["sub"].removesuffix("0") if example["case"] == "payload tampered" else claims["sub"]
    token = issue(wallet.identity_key, claims, act=act, now=NOW, profile=profile)
    ttl = ACTS[profile][act].ttl
    expected = claims | {"iat": NOW, "exp": NOW + ttl, "iss": wallet.key_did, "act": act}
    for at in (NOW - CLOCK_SKEW, NOW + ttl - 1, NOW + ttl - 0.5):
        assert verify(token, act=act, now=at, audience=claims.get("aud"), app=None, profile=profile) == expected
    assert outcome(token, act=act, profile=profile, now=NOW + ttl, audience=None, app=None) == "expired"
    assert (
        outcome(token, act=act, profile=profile, now=NOW - CLOCK_SKEW - 1, audience=None, app=None) == "not_yet_valid"
    )


def test_the_profiles_have_the_acts_and_lifetimes_of_their_documents() -> None:
    assert {profile: len(acts) for profile, acts in ACTS.items()} == {"document": 8, "shipped": 16}
    assert {act.ttl for act in ACTS["document"].values()} == {30, LONG}
    assert {act.ttl for act in ACTS["shipped"].values()} == {SHORT, LONG}


@given(position=st.integers(0, len(SUBSCRIPTION["jwt"]) - 1), character=st.characters())
def test_any_character_that_differs_spoils_a_token(position: int, character: str) -> None:
    token = SUBSCRIPTION["jwt"]
    mutated = token[:position] + character + token[position + 1 :]
    assert (outcome(mutated) == "ok") is (mutated == token)


@given(start=st.integers(0, len(SUBSCRIPTION["jwt"])), end=st.integers(0, len(SUBSCRIPTION["jwt"])), text=st.text())
def test_any_part_that_is_replaced_spoils_a_token(start: int, end: int, text: str) -> None:
    token = SUBSCRIPTION["jwt"]
    mutated = token[:start] + text + token[max(start, end) :]
    assert (outcome(mutated) == "ok") is (mutated == token)


@given(token=st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_any_other_text_is_malformed(token: str) -> None:
    assert outcome(token) == "malformed"
    with pytest.raises(InvalidJwt):
        profile_of(token)


@given(
    header=st.sampled_from([b'{"alg":"EdDSA","typ":"JWT"}', b"{}", b"[]", b"null"]) | st.binary(max_size=40),
    claims=st.binary(max_size=60) | VALUES.map(json.dumps).map(str.encode),
)
def test_whatever_is_signed_raises_nothing_else(wallet: Wallet, header: bytes, claims: bytes) -> None:
    assert outcome(signed_bytes(wallet, header, claims)) in {"malformed", "bad_alg", "missing_claim"}


@given(
    name=st.sampled_from(sorted({name for acts in ACTS.values() for act in acts.values() for name in act.claims})),
    value=VALUES,
    case=st.sampled_from([(profile, act) for profile in ACTS for act in ACTS[profile]]),
)
def test_whatever_a_claim_holds_raises_nothing_else(
    wallet: Wallet, name: str, value: object, case: tuple[Profile, str]
) -> None:
    profile, act = case
    token = signed(wallet, {**claims_of(subscription(wallet)), "act": act, name: value})
    assert outcome(token, act=act, profile=profile) in {"ok", *JwtFlaw}


@pytest.mark.parametrize("value", [None, True, 1.0, [], {}])
@pytest.mark.parametrize("name", REQUIRED)
def test_a_claim_of_another_type_is_malformed(wallet: Wallet, name: str, value: object) -> None:
    assert outcome(signed(wallet, claims_of(subscription(wallet)) | {name: value})) == "malformed"


@pytest.mark.parametrize("name", ["aud", "app", "sub"])
def test_a_did_of_another_kind_is_malformed(wallet: Wallet, name: str) -> None:
    assert outcome(signed(wallet, claims_of(subscription(wallet)) | {name: "did:example:1"})) == "malformed"


@pytest.mark.parametrize("name", REQUIRED)
def test_a_claim_that_is_required_may_not_lack(wallet: Wallet, name: str) -> None:
    claims = claims_of(subscription(wallet))
    del claims[name]
    assert outcome(signed(wallet, claims)) == "missing_claim"


@pytest.mark.parametrize(
    ("act", "claims", "expected"),
    [
        ("notify_get_notifications", {"lmt": 1, "aft": None, "urf": None}, "ok"),
        ("notify_get_notifications", {"lmt": 50}, "ok"),
        ("notify_get_notifications", {"lmt": 0}, "malformed"),
        ("notify_get_notifications", {"lmt": 51}, "malformed"),
        ("notify_get_notifications", {"lmt": True}, "malformed"),
        ("notify_get_notifications", {}, "missing_claim"),
        ("notify_mark_notifications_as_read", {"all": True}, "ok"),
        ("notify_mark_notifications_as_read", {"all": True, "ids": None}, "ok"),
        ("notify_mark_notifications_as_read", {"all": False, "ids": ["i"] * 1_000}, "ok"),
        ("notify_mark_notifications_as_read", {"all": False, "ids": ["i"] * 1_001}, "malformed"),
        ("notify_mark_notifications_as_read", {"all": False, "ids": []}, "malformed"),
        ("notify_mark_notifications_as_read", {"all": False, "ids": [1]}, "malformed"),
        ("notify_watch_subscriptions", {"app": None}, "ok"),
        ("notify_watch_subscriptions", {"mjv": 1}, "malformed"),
    ],
)
def test_requests_keep_to_their_bounds(wallet: Wallet, act: str, claims: dict[str, Any], expected: str) -> None:
    token = issue(wallet.identity_key, CLAIMS | claims, act=act, now=NOW, profile="shipped")
    assert outcome(token, act=act, app=None) == expected


def test_neither_audience_nor_app_is_checked_if_none_is_given(wallet: Wallet) -> None:
    token = subscription(wallet, aud=wallet.key_did, app="did:web:other.example.com")
    assert outcome(token) == "wrong_aud"
    assert outcome(token, audience=None) == "wrong_app"
    assert outcome(token, audience=None, app=None) == "ok"


def test_an_audience_that_is_asked_for_must_be_there() -> None:
    (message,) = [one for one in VALID if (one["profile"], one["act"]) == ("shipped", "notify_message")]
    assert outcome(message["jwt"], act="notify_message", audience=None) == "ok"
    assert outcome(message["jwt"], act="notify_message") == "wrong_aud"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({"typ": "JWT", "alg": "EdDSA"}, "ok"),
        ({"alg": "EdDSA"}, "malformed"),
        ({"alg": "EdDSA", "typ": "jwt"}, "malformed"),
        ({"alg": "EdDSA", "typ": "JWT", "crit": ["exp"]}, "malformed"),
        ({"alg": "eddsa", "typ": "JWT"}, "bad_alg"),
        ({"alg": None, "typ": "JWT"}, "bad_alg"),
        ({"typ": "JWT"}, "bad_alg"),
    ],
)
def test_a_header_says_what_it_says_and_nothing_else(wallet: Wallet, header: dict[str, Any], expected: str) -> None:
    assert outcome(signed(wallet, claims_of(subscription(wallet)), header)) == expected


@pytest.mark.parametrize(
    "claims", [b"[" * 100_000, b'{"iat":NaN}', b'{"iat":1e999}', b'{"iss":"\\ud800"}', b'{"iss":"\xff"}']
)
def test_what_is_no_strict_json_is_malformed(wallet: Wallet, claims: bytes) -> None:
    token = signed_bytes(wallet, compact_json.encode(HEADER), claims)
    assert outcome(token) == "malformed"


def test_a_segment_with_bits_to_spare_is_refused(wallet: Wallet) -> None:
    header = base64url.encode(compact_json.encode(HEADER))
    assert len(header) % 4 == 0
    claims = base64url.encode(compact_json.encode({**claims_of(subscription(wallet)), "mjv": "1"}).ljust(1_000))
    assert claims.endswith("A")
    text = f"{header}.{claims[:-1]}B"
    assert outcome(f"{text}.{base64url.encode(wallet.identity_key.sign(text.encode()))}") == "malformed"
    # Of a signature's last character four bits count.
    token = subscription(wallet)
    spoilt = token[:-1] + chr(ord(token[-1]) + 1)
    assert base64url.decode(spoilt.split(".")[2]) == base64url.decode(token.split(".")[2])
    assert outcome(spoilt) == "bad_signature"


def test_a_request_with_a_version_is_one_of_the_shipped_protocol() -> None:
    for one in VALID:
        if "ksu" in one["claims"]:
            assert profile_of(one["jwt"]) == PROFILES[one["profile"]]


def test_an_act_of_the_other_profile_is_the_callers_mistake() -> None:
    with pytest.raises(LookupError):
        verify(SUBSCRIPTION["jwt"], act="notify_receipt", now=NOW, audience=None, app=None, profile="shipped")


def test_a_receipt_names_the_message_in_the_order_of_its_sending(vectors: Vector) -> None:
    of_document = [one for one in vectors["vectors"] if one["profile"] == "seed-spec"]
    (message, *_) = [claims_of(one["jwt"])["msg"] for one in of_document if one["act"] == "notify_message"]
    receipts = {claims_of(one["jwt"])["sub"] for one in of_document if one["act"] == "notify_receipt"}
    assert {message_hash(message)} == receipts
    assert message_hash(dict(reversed(message.items()))) not in receipts


def test_a_subscription_is_named_by_its_token() -> None:
    assert subscription_hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_no_error_quotes_the_token(wallet: Wallet) -> None:
    token = subscription(wallet, aud="did:key:secret")
    with pytest.raises(InvalidJwt) as refused:
        verify(token, act="notify_subscription", now=NOW, audience=None, app=None, profile="shipped")
    assert str(refused.value) == refused.value.reason == "malformed"
    assert refused.value.__cause__ is None
