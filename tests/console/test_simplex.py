"""The NTF server's identity, as an operator keeps it."""

import json
from base64 import urlsafe_b64encode

import boto3
import pytest

from clarion.networks.simplex.needs import IDENTITY
from clarion.networks.simplex.server_identity import ServerIdentity
from console.faults import Exit
from tests.console.account import PREFIX, Account, Clarion, fill_in

pytestmark = pytest.mark.usefixtures("deployed")


@pytest.fixture
def deployed(account: Account) -> None:
    """Its secret holds what it was made with."""
    fill_in(IDENTITY, "random letters")


def stored() -> ServerIdentity:
    text = boto3.client("secretsmanager").get_secret_value(SecretId=f"{PREFIX}{IDENTITY}")["SecretString"]
    return ServerIdentity.model_validate_json(text)


def test_an_identity_is_made_once(clarion: Clarion) -> None:
    made = json.loads(clarion("simplex", "identity", "create", "--yes", "--json").out)
    first = stored()
    again = json.loads(clarion("simplex", "identity", "create", "--yes", "--json").out)

    assert (made["made"], again["made"]) == (True, False)
    assert made["fingerprint"] == again["fingerprint"] == first.fingerprint.hex()
    assert stored() == first


def test_no_identity_is_made_without_a_yes(clarion: Clarion) -> None:
    assert clarion("simplex", "identity", "create").code == Exit.USAGE


def test_a_new_leaf_keeps_the_address(clarion: Clarion) -> None:
    clarion("simplex", "identity", "create", "--yes")
    before, address = stored(), clarion("simplex", "address", "ntf.example.org").out
    ended = clarion("simplex", "identity", "rotate", "--yes")

    assert "started anew" in ended.out
    assert stored().leaf_key != before.leaf_key
    assert stored().leaf_certificate != before.leaf_certificate
    assert stored().fingerprint == before.fingerprint
    assert clarion("simplex", "address", "ntf.example.org").out == address


def test_the_address_names_the_fingerprint_the_hosts_and_an_uncommon_port(clarion: Clarion) -> None:
    clarion("simplex", "identity", "create", "--yes")
    fingerprint = urlsafe_b64encode(stored().fingerprint).decode()

    shown = clarion("simplex", "address", "ntf.example.org", "other.onion").out.strip()
    assert shown == f"ntf://{fingerprint}@ntf.example.org,other.onion"
    assert (
        clarion("simplex", "address", "ntf.example.org", "--port", "5223").out.strip().endswith("ntf.example.org:5223")
    )


@pytest.mark.parametrize("words", [("address", "ntf.example.org"), ("identity", "rotate", "--yes")])
def test_without_an_identity_the_way_to_one_is_shown(clarion: Clarion, words: tuple[str, ...]) -> None:
    ended = clarion("simplex", *words)

    assert ended.code != Exit.WELL
    assert "clarion simplex identity create" in ended.err


def test_no_private_key_is_shown(clarion: Clarion) -> None:
    shown = [
        clarion("simplex", *words, "--yes", "--json").out for words in (("identity", "create"), ("identity", "rotate"))
    ]
    for key in (stored().leaf_key, stored().identity_key):
        assert not any(line in "".join(shown) for line in key.splitlines())
        assert key not in repr(stored())
