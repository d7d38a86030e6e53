"""What a wallet and a Notify server know together: a key, the topics that follow from it, and what it is for."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from local.walletconnect.codec import JsonObject, open_envelope, seal, shared_key, topic_of
from local.walletconnect.dapp import SUBSCRIBE_KEY, Dapp


@dataclass(frozen=True)
class Conversation:
    """Of a wallet with a dapp's, or its own, part of the Notify server, by a key that both have.

    Where it has no topic yet that is the wallet's alone, `own` is the wallet's key of the agreement, and requests go to
    the topic where everybody asks.
    """

    dapp: Dapp
    key: bytes
    own: X25519PrivateKey | None = None

    @classmethod
    def begun(cls, dapp: Dapp) -> Self:
        own = X25519PrivateKey.generate()
        return cls(dapp, shared_key(own, dapp.keys[SUBSCRIBE_KEY]), own)

    @property
    def topic(self) -> str:
        """Where the server is heard."""
        return topic_of(self.key)

    @property
    def request_topic(self) -> str:
        return topic_of(self.dapp.keys[SUBSCRIBE_KEY]) if self.own else self.topic

    def seal(self, content: JsonObject) -> str:
        return seal(json.dumps(content).encode(), self.key)

    def seal_request(self, content: JsonObject) -> str:
        return seal(json.dumps(content).encode(), self.key, sender=self.own.public_key() if self.own else None)

    def opened(self, envelope: str) -> JsonObject:
        """Raises `cryptography.exceptions.InvalidTag`."""
        content: JsonObject = json.loads(open_envelope(envelope, self.key).content)
        return content


@dataclass(frozen=True)
class WalletSubscription(Conversation):
    """`hash` is that of the request by which it is as it is."""

    scope: Sequence[str] = ()
    hash: str = ""


@dataclass(frozen=True)
class WalletMessage:
    """A notification as the wallet got it; `claims` are those of its JWT."""

    topic: str
    claims: JsonObject

    @property
    def content(self) -> JsonObject:
        message: JsonObject = self.claims["msg"]
        return message
