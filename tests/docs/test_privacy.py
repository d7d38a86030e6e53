"""The test vector of docs/privacy.md, by HPKE as it is implemented for tests, and opened by the client for Python."""

import json
import re
from pathlib import Path
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from clarion import base64url
from clarion.sealing import BUCKET, info
from clarion_client.sealed import DeviceKey
from tests import hpke

PAGE = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text().partition("### A test vector")[2]
SHOWN = dict(re.findall(r"^\| ([^|]+) \| `([^`]+)`", PAGE, re.MULTILINE))
KEY = DeviceKey(bytes.fromhex(SHOWN["private key"]))
NAME, PLAINTEXT = SHOWN["the subscription's id"], SHOWN["plaintext"]
EPHEMERAL = X25519PrivateKey.from_private_bytes(bytes(range(0x20, 0x40)))
[SEALED] = re.findall(r"```text\n(.*)\n```", PAGE)


def test_the_vector_is_what_hpke_makes_of_its_keys() -> None:
    recipient = X25519PrivateKey.from_private_bytes(KEY.private).public_key()
    context = hpke.key_schedule(hpke.encap(EPHEMERAL, recipient), info(UUID(NAME)))
    sealed = EPHEMERAL.public_key().public_bytes_raw() + context.seal(PLAINTEXT.encode().ljust(BUCKET))
    assert base64url.encode(sealed) == SEALED


def test_a_client_opens_the_vector() -> None:
    assert KEY.public == SHOWN["`device_key`"]
    received = {"clarion": json.dumps({"v": 1, "sealed": SEALED})}
    assert KEY.open(received, NAME) == json.loads(PLAINTEXT)
