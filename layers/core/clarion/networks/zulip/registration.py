"""What a device seals for its bouncer: its push token, which the Zulip server between the two can't read.

    {"token": "c0ffee", "token_kind": "apns", "ios_app_id": "org.zulip.Zulip", "timestamp": 1700000000}

is JSON in a libsodium sealed box to one of the bouncer's public keys. There are two profiles: the one that Zulip 12 ships,
whose request names the token by the beginning of its hash (`token_id`), and that of the proposal (ZAP 2), whose request
doesn't, and whose registration may leave the iOS app out. Checks and codes are those of Zulip's bouncer, in its order.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from clarion.channels import Channel

if TYPE_CHECKING:
    from nacl.public import PrivateKey, SealedBox

LIVENESS_TIMEOUT = 24 * 60 * 60
"""Seconds. A day is longer than any minor outage, through which servers retry."""
IOS_APP_ID = "org.zulip.Zulip"
"""Of a registration that names none, as those of the proposal do."""
TOKEN_ID_BYTES = 8
MAX_TOKEN = 4_096
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")
_APP_ID = re.compile(r"[.a-zA-Z0-9-]+")


class RegistrationCode(StrEnum):
    """Zulip's codes for what is final: a server doesn't try such a registration again."""

    BAD_REQUEST = "BAD_REQUEST"
    INVALID_BOUNCER_PUBLIC_KEY = "INVALID_BOUNCER_PUBLIC_KEY"
    REQUEST_EXPIRED = "REQUEST_EXPIRED"


_TEXTS = {
    RegistrationCode.BAD_REQUEST: "Invalid encrypted_push_registration",
    RegistrationCode.INVALID_BOUNCER_PUBLIC_KEY: "Invalid bouncer_public_key",
    RegistrationCode.REQUEST_EXPIRED: "The registration is more than a day old",
}


class RegistrationError(ValueError):
    """Why nothing is registered; the text is for people, and holds nothing of what was sealed."""

    def __init__(self, code: RegistrationCode) -> None:
        super().__init__(_TEXTS[code])
        self.code = code


@dataclass(frozen=True)
class PushRegistration:
    """A device's token, in the case in which it came; `ios_app_id` is None for FCM. `sealed_at` is in UNIX seconds."""

    token: str = field(repr=False)
    token_kind: Literal["apns", "fcm"]
    ios_app_id: str | None
    sealed_at: float


class _Sealed(BaseModel):
    """What both profiles have in common."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    default_app: ClassVar[str] = ""

    token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN)]
    token_kind: Literal["apns", "fcm"]
    ios_app_id: str | None = None

    @property
    def app(self) -> str | None:
        return self._app() if self._is_apns else None

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        if self._is_apns:
            fits = _HEX.fullmatch(self.token) is not None and _APP_ID.fullmatch(self._app()) is not None
        else:
            fits = self.ios_app_id is None
        if not fits:
            raise ValueError("the token or the app is not one of its kind")
        return self

    @property
    def _is_apns(self) -> bool:
        return Channel(self.token_kind) is Channel.APNS

    def _app(self) -> str:
        return self.default_app if self.ios_app_id is None else self.ios_app_id


class _Shipped(_Sealed):
    timestamp: int

    @property
    def sealed_at(self) -> float:
        return self.timestamp


class _Proposed(_Sealed):
    default_app = IOS_APP_ID

    timestamp: int | Annotated[float, Field(allow_inf_nan=False)] | datetime

    @property
    def sealed_at(self) -> float:
        if isinstance(self.timestamp, datetime):
            zoned = self.timestamp if self.timestamp.tzinfo else self.timestamp.replace(tzinfo=UTC)
            return zoned.timestamp()
        return self.timestamp


def open_registration(
    sealed: str, public_key: str, keys: Mapping[str, str], *, token_id: str | None = None, now: int
) -> PushRegistration:
    """Open what was sealed (base64) to `public_key`; `keys` are the bouncer's private keys by their public ones, in base64.

    Without a `token_id` it is read as the proposal has it. `now` is in UNIX seconds. Raises `RegistrationError`.
    """
    if (private_key := keys.get(public_key)) is None:
        raise RegistrationError(RegistrationCode.INVALID_BOUNCER_PUBLIC_KEY)
    box = _box(private_key)
    profile = _Proposed if token_id is None else _Shipped
    try:
        # What is not such JSON raises a ValueError; pydantic's errors are some, too.
        read = profile.model_validate_json(_unsealed(sealed, box))
    except ValueError:
        raise RegistrationError(RegistrationCode.BAD_REQUEST) from None
    if token_id is not None and token_id != token_id_of(read.token):
        raise RegistrationError(RegistrationCode.BAD_REQUEST)
    if now - read.sealed_at > LIVENESS_TIMEOUT:
        raise RegistrationError(RegistrationCode.REQUEST_EXPIRED)
    return PushRegistration(read.token, read.token_kind, read.app, read.sealed_at)


# The ingest image and Spark import this package, too, and lack the library.


def _box(private_key: str) -> "SealedBox[PrivateKey]":
    from nacl.public import PrivateKey, SealedBox  # noqa: PLC0415 - as said

    return SealedBox(PrivateKey(b64decode(private_key)))


def _unsealed(sealed: str, box: "SealedBox[PrivateKey]") -> bytes:
    """Raises `ValueError` for what is no base64, or was sealed for another key."""
    from nacl.exceptions import CryptoError  # noqa: PLC0415 - as said

    try:
        return box.decrypt(b64decode(sealed, validate=True))
    except CryptoError:
        raise ValueError("sealed for another key, or not at all") from None


def token_id_of(token: str) -> str:
    """The first bytes of the token's SHA-256, in base64: what a server knows it by."""
    return b64encode(sha256(token.encode()).digest()[:TOKEN_ID_BYTES]).decode()
