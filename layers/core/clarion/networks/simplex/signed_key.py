"""The key that a server has for one session, signed by the leaf of its chain of certificates.

    SIGNED ::= SEQUENCE { key SubjectPublicKeyInfo, algorithm AlgorithmIdentifier, signature BIT STRING }

as X.509 has it (RFC 5280, 4.1), and for these algorithms RFC 8410. What is signed is the DER of the key.
"""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey, Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509 import ObjectIdentifier
from nacl.public import PublicKey

from clarion.networks.simplex.credentials import dh_der, dh_key
from clarion.networks.simplex.encoding import MalformedSimplex

_ED25519, _ED448 = ObjectIdentifier("1.3.101.112"), ObjectIdentifier("1.3.101.113")


@asn1.sequence
class _Algorithm:
    identifier: ObjectIdentifier


@asn1.sequence
class _KeyInfo:
    algorithm: _Algorithm
    key: asn1.BitString


@asn1.sequence
class _Signed:
    key: _KeyInfo
    algorithm: _Algorithm
    signature: asn1.BitString


def sign_key(key: PublicKey, leaf: Ed25519PrivateKey | Ed448PrivateKey) -> bytes:
    der = dh_der(key)
    return _encoded(der, _ED448 if isinstance(leaf, Ed448PrivateKey) else _ED25519, leaf.sign(der))


def signed_key(raw: bytes, leaf: Ed25519PublicKey | Ed448PublicKey) -> PublicKey:
    """Raises `MalformedSimplex`, also for a key that `leaf` has not signed, and for any other bytes than `sign_key`'s."""
    try:
        signed = asn1.decode_der(_Signed, raw)
        der, signature = asn1.encode_der(signed.key), signed.signature.as_bytes()
        leaf.verify(signature, der)
    except (ValueError, InvalidSignature):
        raise MalformedSimplex("not a key that the leaf has signed") from None
    if _encoded(der, _ED448 if isinstance(leaf, Ed448PublicKey) else _ED25519, signature) != raw:
        raise MalformedSimplex("signed by another algorithm")
    return dh_key(der)


def _encoded(der: bytes, algorithm: ObjectIdentifier, signature: bytes) -> bytes:
    signed = _Signed(
        key=asn1.decode_der(_KeyInfo, der),
        algorithm=_Algorithm(identifier=algorithm),
        signature=asn1.BitString(signature, 0),
    )
    return asn1.encode_der(signed)
