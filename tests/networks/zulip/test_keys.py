import json
from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.public import PublicKey, SealedBox

from clarion.networks.zulip import keys, open_registration
from clarion.networks.zulip.keys import BouncerKeys

NOW = 1_700_000_000
TWO = BouncerKeys().rotated(NOW).rotated(NOW + 1)
OLD, NEW = (key.public for key in TWO.keys)


def test_what_is_sealed_for_a_key_is_opened_by_it() -> None:
    plain = {"token": "c0ffee", "token_kind": "apns", "timestamp": NOW}
    box = SealedBox(PublicKey(b64decode(OLD)))
    sealed = b64encode(box.encrypt(json.dumps(plain).encode())).decode()

    assert open_registration(sealed, OLD, TWO.opening, now=NOW).token == "c0ffee"


def test_an_old_key_is_good_until_it_is_retired() -> None:
    assert list(TWO.opening) == [OLD, NEW]
    assert list(TWO.retired(OLD, NOW + 2).opening) == [NEW]


def test_a_retired_key_is_remembered_without_its_private_half() -> None:
    text = TWO.retired(OLD, NOW + 2).text

    assert [(key.public, key.made_at, key.retired_at) for key in keys.read(text).keys] == [
        (OLD, NOW, NOW + 2),
        (NEW, NOW + 1, None),
    ]
    assert TWO.opening[OLD] not in text


@pytest.mark.parametrize("public", ["unknown", OLD], ids=["unknown", "retired before"])
def test_only_a_key_that_is_good_can_be_retired(public: str) -> None:
    with pytest.raises(LookupError):
        TWO.retired(OLD, NOW).retired(public, NOW)


def test_the_text_is_what_it_was_made_of() -> None:
    assert keys.read(TWO.text) == TWO


@given(flawed=st.text() | st.just("null") | st.just("[]"))
def test_what_is_no_such_json_is_refused(flawed: str) -> None:
    with pytest.raises(ValueError, match="BouncerKeys"):
        keys.read(flawed)


@pytest.mark.parametrize(
    "change",
    [
        {"public": NEW},
        {"private": None},
        {"retired_at": NOW},
        {"private": TWO.opening[NEW]},
        {"private": "not base64"},
        {"private": b64encode(b"too short").decode()},
        {"made_at": None},
    ],
)
def test_a_key_that_is_neither_a_pair_nor_retired_is_refused_and_not_shown(change: dict[str, Any]) -> None:
    written = json.loads(TWO.text)
    written["keys"][0] |= change

    with pytest.raises(ValueError, match="BouncerKeys") as refused:
        keys.read(json.dumps(written))
    assert not any(private in str(refused.value) for private in TWO.opening.values())


def test_no_private_key_shows() -> None:
    assert not any(private in repr(TWO) for private in TWO.opening.values())
