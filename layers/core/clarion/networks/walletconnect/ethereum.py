"""Addresses of Ethereum, and who signed a text with the key of one."""

import re

from coincurve import PublicKey
from sha3 import keccak_256

ADDRESS_BYTES = 20
_SIGNATURE = re.compile(r"(?:0x)?([0-9a-fA-F]{128})([0-9a-fA-F]{2})")
_RECOVERY_IDS = {"00": b"\0", "01": b"\1", "1b": b"\0", "1c": b"\1"}
"""By a signature's last byte in hex: wallets add 27, libraries often don't."""


def checksummed(address: bytes) -> str:
    """As EIP-55 spells it, whose capitals are a checksum: https://eips.ethereum.org/EIPS/eip-55"""
    digits = address.hex()
    checksum = keccak_256(digits.encode()).hexdigest()
    return "0x" + "".join(
        digit.upper() if check >= "8" else digit for digit, check in zip(digits, checksum, strict=False)
    )


def signer_of(message: str, signature: str) -> str:
    """The address whose key signed `message` as EIP-191 has it; `signature` is hex, with the recovery id at its end.

    Whatever is well-formed has some signer. Raises `ValueError` for what isn't: https://eips.ethereum.org/EIPS/eip-191
    """
    matched = _SIGNATURE.fullmatch(signature)
    recovery_id = _RECOVERY_IDS.get(matched[2].lower()) if matched else None
    if matched is None or recovery_id is None:
        raise ValueError("not a recoverable signature")
    text = message.encode()
    signed = b"\x19Ethereum Signed Message:\n%d%b" % (len(text), text)
    key = PublicKey.from_signature_and_message(bytes.fromhex(matched[1]) + recovery_id, signed, hasher=_keccak)
    return address_of(key)


def address_of(key: PublicKey) -> str:
    """The end of the hash of the point, without the byte that says how it is written."""
    return checksummed(_keccak(key.format(compressed=False)[1:])[-ADDRESS_BYTES:])


def _keccak(content: bytes) -> bytes:
    digest: bytes = keccak_256(content).digest()
    return digest
