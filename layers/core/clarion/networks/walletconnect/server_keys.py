"""The Notify server's own keys, of which the text of the secret `walletconnect-server` holds the private halves in hex:

    {"relay_key": …, "authentication_key": …, "subscribe_key": …}

By the first it authenticates with the relay. The public halves of the others stand in its `did.json`: wallets send to
watch their subscriptions to the topic of `subscribe_key`, and know its answers by `authentication_key`.
"""

import os
from functools import cached_property
from typing import Annotated, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pydantic import BaseModel, ConfigDict, Field

from clarion.networks.walletconnect.did import KEY_BYTES
from clarion.networks.walletconnect.envelope import topic_of

PrivateKeyHex = Annotated[str, Field(pattern=rf"^[0-9a-f]{{{2 * KEY_BYTES}}}$", repr=False)]


class ServerKeys(BaseModel):
    """`relay_key` and `authentication_key` are Ed25519, `subscribe_key` is X25519."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    relay_key: PrivateKeyHex
    authentication_key: PrivateKeyHex
    subscribe_key: PrivateKeyHex

    @classmethod
    def generate(cls) -> Self:
        return cls(**{name: os.urandom(KEY_BYTES).hex() for name in cls.model_fields})

    @cached_property
    def relay(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(self.relay_key))

    @cached_property
    def authentication(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(self.authentication_key))

    @cached_property
    def subscribe(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(bytes.fromhex(self.subscribe_key))

    @property
    def watch_topic(self) -> str:
        return topic_of(self.subscribe.public_key().public_bytes_raw())

    @property
    def text(self) -> str:
        """What the secret holds, private keys included."""
        return self.model_dump_json()
