"""Development credentials for the providers: what Apple's and Google's consoles would hand out.

`python -m local.keys FOLDER` fills a folder that the stand-ins read:

    ca.pem, localhost.pem     TLS (see `local.tls`)
    AuthKey_LOCALKEY00.p8     the APNs signing key (ES256); the key id is in its name, the team is LOCALTEAM0
    google.pem                the service account's RSA key
    service-account.json      the same as Google's console exports it; written by `local.fcm`, which knows its own URL
"""

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from clarion import base64url
from local import tls

TEAM_ID = "LOCALTEAM0"
KEY_ID = "LOCALKEY00"
PROJECT_ID = "clarion-local"

_RSA_BITS = 2048


@dataclass(frozen=True, slots=True)
class ApnsKeyPair:
    """An APNs provider key; `private_key` is the .p8 file's text."""

    team_id: str
    key_id: str
    private_key: str = field(repr=False)

    @property
    def public_key(self) -> str:
        return _public_half(self.private_key)


@dataclass(frozen=True, slots=True)
class VapidKeyPair:
    """Signs what is sent to browsers' push services; `private_key` is PEM."""

    private_key: str = field(repr=False)

    @property
    def application_server_key(self) -> str:
        """The public half as a web page subscribes with it: base64url of the uncompressed point."""
        key = serialization.load_pem_private_key(self.private_key.encode(), password=None).public_key()
        point = key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
        return base64url.encode(point)

    def as_json(self) -> str:
        """The secret: docs/operations.md, "Secrets"."""
        return json.dumps({"private_key": self.private_key, "subject": "mailto:operators@clarion.invalid"})


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A Google service account that may send for one Firebase project; `private_key` is PEM."""

    project_id: str
    private_key: str = field(repr=False)

    @property
    def client_email(self) -> str:
        return f"clarion@{self.project_id}.iam.gserviceaccount.com"

    @property
    def public_key(self) -> str:
        return _public_half(self.private_key)

    def as_json(self, token_uri: str) -> str:
        """The key file as Google's console exports it: https://google.aip.dev/auth/4112"""
        content = {
            "type": "service_account",
            "project_id": self.project_id,
            "private_key_id": "local",
            "private_key": self.private_key,
            "client_email": self.client_email,
            "token_uri": token_uri,
        }
        return json.dumps(content, indent=2)


def generate_apns_key(team_id: str = TEAM_ID, key_id: str = KEY_ID) -> ApnsKeyPair:
    return ApnsKeyPair(team_id, key_id, _pem(ec.generate_private_key(ec.SECP256R1())))


def generate_service_account(project_id: str = PROJECT_ID) -> ServiceAccount:
    return ServiceAccount(project_id, _pem(rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)))


def generate_vapid_key() -> VapidKeyPair:
    return VapidKeyPair(_pem(ec.generate_private_key(ec.SECP256R1())))


def generate(folder: Path) -> None:
    """Fills `folder`, creating it if need be, with everything that the stand-ins read."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tls.issue(folder)
    _write_secret(_apns_file(folder), generate_apns_key().private_key)
    _write_secret(_google_file(folder), generate_service_account().private_key)


def load_apns_key(folder: Path) -> ApnsKeyPair:
    return ApnsKeyPair(TEAM_ID, KEY_ID, _apns_file(folder).read_text())


def load_service_account(folder: Path) -> ServiceAccount:
    return ServiceAccount(PROJECT_ID, _google_file(folder).read_text())


def write_service_account(folder: Path, account: ServiceAccount, token_uri: str) -> None:
    _write_secret(folder / "service-account.json", account.as_json(token_uri))


def _apns_file(folder: Path) -> Path:
    return folder / f"AuthKey_{KEY_ID}.p8"


def _google_file(folder: Path) -> Path:
    return folder / "google.pem"


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _public_half(private_key: str) -> str:
    key = serialization.load_pem_private_key(private_key.encode(), password=None).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m local.keys", description="Generate development credentials.")
    parser.add_argument("folder", type=Path)
    generate(parser.parse_args().folder)


if __name__ == "__main__":
    main()
