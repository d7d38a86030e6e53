"""Base64url without padding: https://www.rfc-editor.org/rfc/rfc7515#section-2"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

ALPHABET = re.compile(r"[A-Za-z0-9_-]*")


def encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Raises `ValueError` for padding and for whatever else is not of the alphabet.

    The last character may have bits to spare, which are not read: several texts may stand for the same bytes.
    """
    if not ALPHABET.fullmatch(text):
        raise ValueError("not base64url without padding")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
