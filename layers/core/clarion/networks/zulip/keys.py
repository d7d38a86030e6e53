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
    """One pair, which has either a `private` half or the time when it was retired."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    public: str
    private: str | None = Field(repr=False)
    made_at: int
    retired_at: int | None = None

    @classmethod
    def generate(cls, now_s: int) -> Self:
        pair = PrivateKey.generate()
        return cls(public=_base64(pair.public_key), private=_base64(pair), made_at=now_s)

    @model_validator(mode="after")
    def _is_pair_or_retired(self) -> Self:
        if (self.private is None) == (self.retired_at is None):
            raise ValueError("either private or retired_at is needed")
        if self.private is not None and not _are_pair(self.private, self.public):
            raise ValueError("not a pair")
        return self

    def retired(self, now_s: int) -> Self:
        return self.model_copy(update={"private": None, "retired_at": now_s})


class BouncerKeys(BaseModel):
    """All keys there have been, the oldest first."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    keys: tuple[BouncerKey, ...] = ()

    @property
    def opening(self) -> Mapping[str, str]:
        """The private keys that open registrations, by their public ones: as `open_registration` takes them."""
        return {key.public: key.private for key in self.keys if key.private is not None}

    def has(self, public: str) -> bool:
        """Whether there is such a key, be it retired."""
        return any(key.public == public for key in self.keys)

    @property
    def text(self) -> str:
        """What the secret holds, private keys included."""
        return self.model_dump_json()

    def rotated(self, now_s: int) -> Self:
        """With a new key, the last; the others stay good. `now_s` is in UNIX seconds."""
        return self.model_copy(update={"keys": (*self.keys, BouncerKey.generate(now_s))})

    def retired(self, public: str, now_s: int) -> Self:
        """Without the private half of `public`. Raises `LookupError` if it opens nothing."""
        if public not in self.opening:
            raise LookupError("no such key, or it is retired already")
        keys = tuple(key.retired(now_s) if key.public == public else key for key in self.keys)
        return self.model_copy(update={"keys": keys})


def read(text: str) -> BouncerKeys:
    """Raises `ValueError`, which holds nothing of the text, for what isn't the JSON above."""
    return BouncerKeys.model_validate_json(text)


def _are_pair(private: str, public: str) -> bool:
    seed = b64decode(private, validate=True)
    return len(seed) == PrivateKey.SIZE and _base64(PrivateKey(seed).public_key) == public


def _base64(key: PrivateKey | PublicKey) -> str:
    return b64encode(bytes(key)).decode()
