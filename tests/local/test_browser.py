import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from clarion import base64url
from local.browser import BrowserKeys, BrowserSubscription, UndecryptableError
from tests.local.application_server import LAST_RECORD, encrypt

NOW = 1_800_000_000.0
KEYS = BrowserKeys.generate()
SUBSCRIPTION = BrowserSubscription("https://push.example/push/1", "the application server's key", KEYS).as_json()

# https://www.rfc-editor.org/rfc/rfc8291#section-5 and #appendix-A
RFC_PRIVATE_KEY = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
RFC_PUBLIC_KEY = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
RFC_AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
RFC_BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A"
    "_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)

RECORD_SIZE = range(16, 20)
"""Where it stands in a body: nothing is encrypted with it."""


def rfc_keys() -> BrowserKeys:
    number = int.from_bytes(base64url.decode(RFC_PRIVATE_KEY))
    return BrowserKeys(ec.derive_private_key(number, ec.SECP256R1()), base64url.decode(RFC_AUTH))


def test_the_example_of_the_rfc_is_decrypted() -> None:
    keys = rfc_keys()
    assert base64url.encode(keys.p256dh) == RFC_PUBLIC_KEY
    assert keys.decrypt(base64url.decode(RFC_BODY)) == b"When I grow up, I want to be a watermelon"


@given(position=st.integers(0, 143).filter(lambda position: position not in RECORD_SIZE), bit=st.integers(0, 7))
def test_a_message_with_any_bit_changed_is_not_decrypted(position: int, bit: int) -> None:
    body = bytearray(base64url.decode(RFC_BODY))
    body[position] ^= 1 << bit
    with pytest.raises(UndecryptableError):
        rfc_keys().decrypt(bytes(body))


@given(content=st.binary(max_size=3993), padding=st.integers(0, 100))
def test_what_was_encrypted_for_a_browser_it_decrypts_without_the_padding(content: bytes, padding: int) -> None:
    body = encrypt(SUBSCRIPTION, content, padding=LAST_RECORD + bytes(padding), record_size=4200)
    assert KEYS.decrypt(body) == content


def test_the_longest_content_makes_the_longest_body() -> None:
    assert len(encrypt(SUBSCRIPTION, bytes(3993))) == 4096


@pytest.mark.parametrize(
    ("body", "flaw"),
    [
        (b"", "cut short"),
        (encrypt(SUBSCRIPTION, b"")[:85], "cut short"),
        (encrypt(SUBSCRIPTION, b"")[:102], "one record"),
        (encrypt(SUBSCRIPTION, b"1234", record_size=21), "one record"),
        (encrypt(SUBSCRIPTION, b"content", padding=b""), "delimiter"),
        (encrypt(SUBSCRIPTION, b"content", padding=b"\1\0"), "delimiter"),
        (encrypt(SUBSCRIPTION, b"", padding=b"\0\0"), "delimiter"),
        (bytes(20) + b"\x40" + bytes(200), "no public key"),
        (bytes(17) + b"\xff\0\0\x41" + b"\4" + bytes(200), "no point"),
        (base64url.decode(RFC_BODY), "other keys"),
    ],
    ids=[
        "empty",
        "half a key",
        "half a tag",
        "larger than its record size",
        "no delimiter",
        "more records to come",
        "only padding",
        "short key id",
        "no point",
        "other keys",
    ],
)
def test_what_breaks_a_rule_is_not_decrypted(body: bytes, flaw: str) -> None:
    with pytest.raises(UndecryptableError, match=flaw):
        KEYS.decrypt(body)


def test_a_subscription_is_written_as_browsers_write_it() -> None:
    subscription = BrowserSubscription("https://push.example/push/1", "key", rfc_keys())
    keys = {"p256dh": RFC_PUBLIC_KEY, "auth": RFC_AUTH}
    assert subscription.as_json() == {
        "endpoint": "https://push.example/push/1",
        "expirationTime": None,
        "keys": keys,
    }
    assert "push/1" not in repr(subscription)
    assert RFC_AUTH not in repr(subscription)


def test_a_browser_that_is_away_gets_the_newest_message_of_each_topic_on_connecting() -> None:
    browser = BrowserSubscription("https://push.example/push/1", "key")
    browser.disconnect()
    for content, topic in [(b"1", None), (b"2", "a"), (b"3", "b"), (b"4", "a"), (b"5", None)]:
        browser.deliver(content, topic=topic, expires_at=NOW + 60)
    assert browser.messages == []
    browser.connect(NOW)
    assert browser.messages == [b"1", b"3", b"4", b"5"]
    browser.deliver(b"6", topic="a", expires_at=NOW)
    assert browser.messages[-1] == b"6"


def test_a_message_that_expires_before_the_browser_connects_is_lost() -> None:
    browser = BrowserSubscription("https://push.example/push/1", "key")
    browser.disconnect()
    browser.deliver(b"without a TTL", topic=None, expires_at=NOW)
    browser.deliver(b"for a minute", topic=None, expires_at=NOW + 60)
    browser.connect(NOW + 59)
    assert browser.messages == [b"for a minute"]


@pytest.mark.parametrize("text", ["AA==", "A+", "A/", "A A", "A\n", "A", "ä"])
def test_what_is_no_base64url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"base64|data characters"):
        base64url.decode(text)


@given(st.binary())
def test_base64url_carries_all_bytes(raw: bytes) -> None:
    assert base64url.decode(base64url.encode(raw)) == raw
