"""Who a server is: a self-signed certificate whose fingerprint is in the address, and one below it for TLS."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey, Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from local.simplex.codec import WireFault
from local.simplex.keys import SignaturePublicKey, SigningKey, dh_public_key, spki

_CIPHERS = "ECDHE-ECDSA-CHACHA20-POLY1305"
"""Of TLS 1.2: Python chooses those of 1.3 itself."""
_ED25519, _ED448 = bytes.fromhex("300506032b6570"), bytes.fromhex("300506032b6571")
"""X.509's identifiers of the algorithms."""
_SPKI_BYTES = 44


@dataclass(frozen=True)
class StandInIdentity:
    """The certificates in DER, that of TLS first, and its key."""

    chain: Sequence[bytes]
    leaf_key: SigningKey

    @classmethod
    def made(cls, kind: type[SigningKey] = Ed448PrivateKey) -> Self:
        """Servers of the reference use Ed448 unless told otherwise."""
        authority, leaf = kind.generate(), kind.generate()
        root = _certificate("SMP server CA", authority, "SMP server CA", authority)
        return cls((_certificate("SMP server CA", authority, "localhost", leaf), root), leaf)

    @property
    def key_hash(self) -> bytes:
        return key_hash_of(self.chain)

    def server_context(self, protocol: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(_CIPHERS)
        context.num_tickets = 0  # a resumed session would have another id
        context.set_alpn_protocols([protocol])
        with TemporaryDirectory() as folder:
            context.load_cert_chain(self._written_to(Path(folder) / "chain.pem"))
        return context

    def _written_to(self, file: Path) -> Path:
        certificates = [x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM) for der in self.chain]
        key = self.leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(b"".join((*certificates, key)))
        return file

    def signed(self, key: X25519PublicKey) -> bytes:
        """The key in X.509's SIGNED structure, by the certificate of TLS."""
        algorithm, _ = _algorithm(self.leaf_key.public_key())
        info = spki(key)
        return _sequence(info + algorithm + _bit_string(self.leaf_key.sign(info)))


def key_hash_of(chain: Sequence[bytes]) -> bytes:
    """The fingerprint of the identity, which is second of two or three, and then also third of four."""
    if not 2 <= len(chain) <= 4:
        raise WireFault(f"a chain of {len(chain)} certificates")
    return sha256(chain[1]).digest()


def key_signed_by(chain: Sequence[bytes], signed: bytes) -> X25519PublicKey:
    """Raises `WireFault` if its structure is another, or the signature not by the first certificate's key."""
    signer = _signer(chain)
    algorithm, size = _algorithm(signer)
    content = signed[-(_SPKI_BYTES + len(algorithm) + 3 + size) :]
    info, signature = content[:_SPKI_BYTES], content[-size:]
    if signed != _sequence(info + algorithm + _bit_string(signature)):
        raise WireFault("no signed key")
    try:
        signer.verify(signature, info)
    except InvalidSignature as error:
        raise WireFault("the key is signed by another certificate") from error
    return dh_public_key(info)


def client_context(protocol: str | None) -> ssl.SSLContext:
    """It asks for no names: the fingerprint says who the server is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_ecdh_curve("X25519")
    if protocol:
        context.set_alpn_protocols([protocol])
    return context


def _signer(chain: Sequence[bytes]) -> SignaturePublicKey:
    match x509.load_der_x509_certificate(chain[0]).public_key():
        case Ed25519PublicKey() | Ed448PublicKey() as key:
            return key
    raise WireFault("the certificate has a key of another kind")


def _algorithm(key: SignaturePublicKey) -> tuple[bytes, int]:
    """Its identifier, and how long its signatures are."""
    return (_ED25519, 64) if isinstance(key, Ed25519PublicKey) else (_ED448, 114)


def _certificate(issuer: str, signer: SigningKey, subject: str, key: SigningKey) -> bytes:
    now, is_authority = datetime.now(UTC), signer is key
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=is_authority)
    )
    return builder.sign(signer, None).public_bytes(Encoding.DER)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _sequence(content: bytes) -> bytes:
    length = bytes([len(content)]) if len(content) < 0x80 else bytes([0x81, len(content)])
    return b"\x30" + length + content


def _bit_string(value: bytes) -> bytes:
    return bytes([0x03, len(value) + 1, 0]) + value
