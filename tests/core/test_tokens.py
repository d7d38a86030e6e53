"""By what a token is known."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.channels import Channel
from clarion.tokens import token_hash

ENDPOINT = "https://updates.push.services.mozilla.com/wpush/v2/"


def hash_of(endpoint: str, key: str = "a") -> bytes:
    return token_hash(Channel.WEBPUSH, json.dumps({"endpoint": endpoint, "p256dh": key, "auth": key}))


def test_the_same_text_at_two_providers_is_two_tokens() -> None:
    assert token_hash(Channel.APNS, "a1") != token_hash(Channel.VOIP, "a1")


def test_a_browser_is_one_token_whatever_its_keys() -> None:
    assert hash_of(ENDPOINT + "x", "a") == hash_of(ENDPOINT + "x", "b")


@given(st.text(string.ascii_letters + string.digits + "-._~:=", min_size=1), st.data())
def test_a_browser_is_one_token_however_its_endpoint_is_encoded(path: str, data: st.DataObject) -> None:
    encodings = [data.draw(st.sampled_from([one, f"%{ord(one):02x}", f"%{ord(one):02X}"])) for one in path]
    assert hash_of(ENDPOINT + "".join(encodings)) == hash_of(ENDPOINT + path)


@pytest.mark.parametrize("path", ["B", "a%00", "%ff", "%fe", "%2561", "a/", "a?"])
def test_another_endpoint_is_another_token(path: str) -> None:
    assert hash_of(ENDPOINT + path) != hash_of(ENDPOINT + "a")
