"""Who sends a Web Push: a key of our own, and tokens signed with it. https://www.rfc-editor.org/rfc/rfc8292

Browsers subscribe for one public key. With another one, every subscription made so far is refused.
"""

import time

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import BaseModel, ConfigDict, Field

from clarion import base64url
from clarion.providers.credentials import (
    SECRET_FAULTS,
    Clock,
    P256Key,
    Unavailable,
    es256_token,
    without_secret,
)
from clarion.secrets import Secret

PERIOD = 6 * 3600
"""Seconds after which new tokens are signed."""
LIFETIME = 12 * 3600
"""Of a token, in seconds, from the start of its period. A day is the most that push services take."""
MAX_ORIGINS = 1000
"""Whose tokens are kept: clients choose the host below `*.notify.windows.com`."""


class VapidKey(BaseModel):
    """`private_key` is PEM; `subject` is whom a push service's operator turns to: `mailto:` or `https:`.

    Apple refuses a subject without a real domain, such as `localhost`.
    """

    model_config = ConfigDict(frozen=True)

    private_key: P256Key = Field(repr=False)
    subject: str = Field(pattern=r"^(mailto:[^@\s<>]+@[^@\s<>.]+(\.[^@\s<>.]+)+|https://[^\s/.]+(\.[^\s/.]+)+(/\S*)?)$")

    @property
    def public_key(self) -> str:
        """In base64url: what a browser subscribes with, as its `applicationServerKey`."""
        point = self.private_key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return base64url.encode(point)


class VapidCredential:
    """An app at one push service, which takes a token for each origin that it has endpoints at.

    Tokens are signed deterministically for the current six hours, so workers make the same ones.
    """

    def __init__(self, secret: Secret[VapidKey], clock: Clock = time.time) -> None:
        self._secret = secret
        self._clock = clock
        self._made_of: tuple[VapidKey, int] | None = None
        self._public_key = ""
        self._tokens: dict[str, str] = {}

    @property
    def key_version(self) -> str | None:
        return self._secret.version

    def bearer(self) -> str | Unavailable:
        """The public key: all that is the same at every origin."""
        try:
            made_of = self._secret.get(), int(self._clock()) // PERIOD * PERIOD
        except SECRET_FAULTS as error:
            return without_secret(error)
        if self._made_of != made_of:
            self._made_of = made_of
            self._public_key = made_of[0].public_key
            self._tokens.clear()
        return self._public_key

    def token(self, origin: str) -> str:
        """For endpoints at this origin, good with the public key that `bearer` gave last."""
        if self._made_of is None:
            raise RuntimeError("there is no token before there is a bearer")
        if origin not in self._tokens:
            if len(self._tokens) >= MAX_ORIGINS:
                self._tokens.clear()
            self._tokens[origin] = vapid_token(*self._made_of, origin)
        return self._tokens[origin]

    def renew(self) -> bool:
        before = self._public_key
        try:
            self._secret.reread()
        except SECRET_FAULTS:
            return False
        return self.bearer() != before

    def alternate(self) -> bool:
        """Push services take any token that is good."""
        return False


def vapid_token(key: VapidKey, period: int, origin: str) -> str:
    """`period` is its start in UNIX seconds. https://www.rfc-editor.org/rfc/rfc8292#section-2"""
    return es256_token(key.private_key, {"typ": "JWT"}, {"aud": origin, "exp": period + LIFETIME, "sub": key.subject})
