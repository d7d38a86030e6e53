import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.walletconnect import did
from clarion.networks.walletconnect.did import KeyType, MalformedDid
from clarion.networks.walletconnect.ethereum import checksummed
from tests.networks.walletconnect.conftest import Vector

KEYS = st.binary(min_size=32, max_size=32)
KEY_DID = "did:key:z6Mkj8RNNz6rF6dBrd6syXVoUUmNnonN1QxG3ZspeyyfLghJ"
ACCOUNT = "eip155:1:0x931ECeAcDaEE71B80b891a7967d7674e0871fCCc"


@pytest.mark.parametrize("name", ["identity", "identity2", "dapp", "notify_server", "attacker"])
def test_a_signing_key_is_written_as_the_reference_does(vectors: Vector, name: str) -> None:
    key = vectors["keys"][name]
    raw = bytes.fromhex(key["public_key"])
    assert did.key_did(raw, KeyType.ED25519) == key["did_key"]
    assert did.key_of(key["did_key"], KeyType.ED25519) == raw


def test_an_agreement_key_is_another_kind_of_did(vectors: Vector) -> None:
    example = vectors["did_key_x25519_example"]
    assert did.key_did(did.key_of(example, KeyType.X25519), KeyType.X25519) == example
    with pytest.raises(MalformedDid):
        did.key_of(example, KeyType.ED25519)


@given(key=KEYS, key_type=st.sampled_from(KeyType))
def test_a_key_comes_back(key: bytes, key_type: KeyType) -> None:
    assert did.key_of(did.key_did(key, key_type), key_type) == key


@given(key=KEYS, position=st.integers(0, len(KEY_DID) - 1), character=st.characters(min_codepoint=32))
def test_no_key_has_two_spellings(key: bytes, position: int, character: str) -> None:
    written = did.key_did(key, KeyType.ED25519)
    other = written[:position] + character + written[position + 1 :]
    try:
        read = did.key_of(other, KeyType.ED25519)
    except MalformedDid:
        return
    assert (read == key) is (other == written)


@given(text=st.text() | st.text().map(lambda end: "did:key:z" + end))
def test_any_other_text_is_no_key(text: str) -> None:
    for key_type in KeyType:
        with pytest.raises(MalformedDid):
            did.key_of(text, key_type)


def test_the_vectors_account_is_one(vectors: Vector) -> None:
    account = vectors["account"]
    assert did.account_of(account["did_pkh"]) == account["caip10"]
    assert did.account_did(account["caip10"]) == account["did_pkh"]


@pytest.mark.parametrize(
    "flawed",
    [
        ACCOUNT,
        f"did:pkh:{ACCOUNT.lower()}",
        f"did:pkh:{ACCOUNT.replace('931EC', '931ec')}",
        f"did:pkh:{ACCOUNT}0",
        f"did:pkh:{ACCOUNT}\n",
        f"did:pkh:{ACCOUNT.replace(':1:', ':01:')}",
        f"did:pkh:{ACCOUNT.replace(':1:', '::')}",
        f"did:pkh:{ACCOUNT.replace('eip155', 'cosmos')}",
        f"did:pkh:did:pkh:{ACCOUNT}",
        "did:pkh:",
    ],
)
def test_what_is_no_account_of_ethereum_or_has_another_checksum_is_malformed(flawed: str) -> None:
    with pytest.raises(MalformedDid):
        did.account_of(flawed)


@given(address=st.binary(min_size=20, max_size=20), chain=st.integers(0, 10**32 - 1))
def test_an_account_comes_back(address: bytes, chain: int) -> None:
    account = f"eip155:{chain}:{checksummed(address)}"
    assert did.account_of(did.account_did(account)) == account


@given(text=st.text())
def test_any_other_text_is_no_account(text: str) -> None:
    with pytest.raises(MalformedDid):
        did.account_of(did.account_did(text))


@pytest.mark.parametrize("domain", ["app.example.com", "a", "x_y-z.example", "a" * 253])
def test_a_domain_comes_back(domain: str) -> None:
    assert did.domain_of(did.domain_did(domain)) == domain


@pytest.mark.parametrize(
    "flawed", ["", "App.example.com", "a" * 254, "app.example.com%3A8000", "app.example.com:path", "a/b", "a\n"]
)
def test_what_is_no_domain_is_malformed(flawed: str) -> None:
    for text in (did.domain_did(flawed), flawed):
        with pytest.raises(MalformedDid):
            did.domain_of(text)


def test_no_error_quotes_what_was_received() -> None:
    for read in (did.account_of, did.domain_of, lambda text: did.key_of(text, KeyType.ED25519)):
        with pytest.raises(MalformedDid) as refused:
            read("did:secret:?")
        assert "secret" not in json.dumps(repr(refused.value))
