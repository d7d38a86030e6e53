"""The bouncer's key pairs (X25519): each release of the app has a public key, for which devices seal their tokens.

    {"keys": [{"public": "mm4F…", "private": "…", "made_at": 1700000000, "retired_at": null}]}

is the text of the secret `zulip-bouncer`: keys in base64 as Zulip has them, times in UNIX seconds. A key is good until it
is retired, since releases that have it are long in use; then its private half is forgotten. Only registrations need it:
devices that were registered with it stay. `clarion.secrets.Secret` reads and caches the text with `BouncerKeys` as model.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Self

from nacl.public import PrivateKey, PublicKey
from pydantic import BaseModel, ConfigDict, Field, model_validator


class BouncerKey(BaseModel):
    """One pair; `private` is None once it is retired."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    public: str
    private: str | None = Field(repr=False)
    made_at: int
    retired_at: int | None = None

    @classmethod
    def generate(cls, now: int) -> Self:
        pair = PrivateKey.generate()
        return cls(public=_base64(pair.public_key), private=_base64(pair), made_at=now)

    @model_validator(mode="after")
    def _is_pair(self) -> Self:
        if self.private is None:
            fits = self.retired_at is not None
        else:
            seed = b64decode(self.private, validate=True)
            fits = len(seed) == PrivateKey.SIZE and _base64(PrivateKey(seed).public_key) == self.public
        if not fits:
            raise ValueError("neither a pair nor retired")
        return self

    def retired(self, now: int) -> Self:
        return self.model_copy(update={"private": None, "retired_at": now})


class BouncerKeys(BaseModel):
    """All keys there have been, the oldest first."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    keys: tuple[BouncerKey, ...] = ()

    @property
    def opening(self) -> Mapping[str, str]:
        """The private keys that open registrations, by their public ones: as `open_registration` takes them."""
        return {key.public: key.private for key in self.keys if key.private is not None and key.retired_at is None}

    @property
    def text(self) -> str:
        """What the secret holds, private keys included."""
        return self.model_dump_json()

    def rotated(self, now: int) -> Self:
        """With a new key, the last; the others stay good. `now` is in UNIX seconds."""
        return self.model_copy(update={"keys": (*self.keys, BouncerKey.generate(now))})

    def retired(self, public: str, now: int) -> Self:
        """Without the private half of `public`. Raises `LookupError` if it opens nothing."""
        if public not in self.opening:
            raise LookupError("no such key, or it is retired already")
        keys = tuple(key.retired(now) if key.public == public else key for key in self.keys)
        return self.model_copy(update={"keys": keys})


def read(text: str) -> BouncerKeys:
    """Raises `ValueError`, which holds nothing of the text, for what isn't the JSON above."""
    return BouncerKeys.model_validate_json(text)


def _base64(key: PrivateKey | PublicKey) -> str:
    return b64encode(bytes(key)).decode()
