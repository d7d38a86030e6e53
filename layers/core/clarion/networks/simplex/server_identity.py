"""What the NTF server is known by, of which the text of the secret `simplex-identity` holds all in PEM:

    {"identity_certificate": …, "identity_key": …, "leaf_certificate": …, "leaf_key": …}

The identity signs itself and the leaf, and its fingerprint stands in the server's address: agents that have this address
accept whatever leaf it signs, and no other identity. The leaf's key alone is used in sessions. Both are Ed25519 and never
expire by themselves, as no agent could be given another address in time.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Annotated, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pydantic import BaseModel, ConfigDict, Field, model_validator

from clarion.networks.simplex.credentials import fingerprint

PrivatePem = Annotated[str, Field(repr=False)]

_NEVER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""https://www.rfc-editor.org/rfc/rfc5280#section-4.1.2.5"""
_CLOCKS_APART = timedelta(days=1)


class ServerIdentity(BaseModel):
    """Raises `ValueError` where it is made of parts that don't belong together."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    identity_certificate: str
    identity_key: PrivatePem
    leaf_certificate: str
    leaf_key: PrivatePem

    @classmethod
    def generate(cls, now: datetime) -> Self:
        key = Ed25519PrivateKey.generate()
        name = _named("Clarion NTF identity")
        identity = _Issuer(name, key).sign(name, key.public_key(), now, authority=True)
        return cls._with_leaf(identity, key, now)

    def with_new_leaf(self, now: datetime) -> Self:
        """Of the same identity, and so under the same address."""
        return self._with_leaf(self._identity, _private(self.identity_key), now)

    @classmethod
    def _with_leaf(cls, identity: x509.Certificate, key: Ed25519PrivateKey, now: datetime) -> Self:
        leaf_key = Ed25519PrivateKey.generate()
        issuer = _Issuer(identity.subject, key)
        leaf = issuer.sign(_named("Clarion NTF server"), leaf_key.public_key(), now, authority=False)
        return cls(
            identity_certificate=_public_pem(identity),
            identity_key=_private_pem(key),
            leaf_certificate=_public_pem(leaf),
            leaf_key=_private_pem(leaf_key),
        )

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        leaf = _certificate(self.leaf_certificate)
        if _private(self.identity_key).public_key() != self._identity.public_key():
            raise ValueError("identity_key is of another identity")
        if self.leaf.public_key() != leaf.public_key():
            raise ValueError("leaf_key is of another leaf")
        try:
            leaf.verify_directly_issued_by(self._identity)
        except (ValueError, TypeError, InvalidSignature):
            raise ValueError("the leaf is of another identity") from None
        return self

    @cached_property
    def fingerprint(self) -> bytes:
        return fingerprint(self._identity.public_bytes(Encoding.DER))

    @cached_property
    def leaf(self) -> Ed25519PrivateKey:
        return _private(self.leaf_key)

    @property
    def chain(self) -> str:
        """Both certificates, the leaf first, as TLS sends them."""
        return self.leaf_certificate + self.identity_certificate

    @property
    def text(self) -> str:
        """What the secret holds, private keys included."""
        return self.model_dump_json()

    @property
    def _identity(self) -> x509.Certificate:
        return _certificate(self.identity_certificate)


@dataclass(frozen=True)
class _Issuer:
    name: x509.Name
    key: Ed25519PrivateKey

    def sign(self, subject: x509.Name, key: Ed25519PublicKey, now: datetime, *, authority: bool) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCKS_APART)
            .not_valid_after(_NEVER)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
            .add_extension(_key_usage(authority=authority), critical=True)
        )
        if not authority:
            builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        return builder.sign(self.key, None)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


def _private(pem: str) -> Ed25519PrivateKey:
    key = load_pem_private_key(pem.encode(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("not a key of Ed25519")  # noqa: TRY004 - for pydantic
    return key


def _public_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _private_pem(key: Ed25519PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
