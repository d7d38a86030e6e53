"""Bytes as WebPush writes them: base64url without padding, and nothing else."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

ALPHABET = re.compile(r"[A-Za-z0-9_-]*")


def encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Raises `ValueError` for padding and for whatever else is not of the alphabet."""
    if not ALPHABET.fullmatch(text):
        raise ValueError("no base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
