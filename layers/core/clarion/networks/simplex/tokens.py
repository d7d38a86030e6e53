"""Tokens, as the NTF server keeps them, and the kernel's subscription that each of them has beside its row.

    status                              kernel's subscription
    REGISTERED, CONFIRMED               pending: it gets the push with the code, and nothing else
    ACTIVE                              active
    INVALID, with its reason            invalid: its rules are out of force, its queues' rows are kept for a month

The id follows from the token and its owner's key, so that who registers it twice, or twice at once, writes one row. It
stays when the token is replaced; then an alias leads from the id that would follow from the new token to the row.
"""

from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

from pynamodb.attributes import (
    BinaryAttribute,
    BooleanAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)
from pynamodb.models import Model

from clarion.networks.simplex.addresses import SmpServer
from clarion.networks.simplex.commands import client_id
from clarion.networks.simplex.needs import TOKENS
from clarion.networks.simplex.ntf_commands import DeviceToken, NtfProvider
from clarion.networks.simplex.storage_key import StorageKey

_ID_LABEL = b"token id"


class TokenSecrets(NamedTuple):
    """Of one token: our half of its key, by which pushes are encrypted, what is agreed with it, and the code."""

    private_key: bytes
    agreed: bytes
    code: bytes

    @property
    def packed(self) -> bytes:
        """Each of them has 32 bytes."""
        return b"".join(self)

    @classmethod
    def unpack(cls, packed: bytes) -> "TokenSecrets":
        return cls(packed[:32], packed[32:64], packed[64:])


class StoredToken(Model):
    """`secrets` are sealed `TokenSecrets`, bound to the row's `token_id`.

    `token` is as the agent sent it, `status` a `TokenStatus`. It is `verified` if it ever was ACTIVE. It has `lost_rules`
    if its subscription has ended since, and then counts the queues that were `added` to those whose rules are to be
    written again. `servers` has some digits of the hash of each SMP server that it has named. `registered_at` is when
    its token was, in UNIX milliseconds; `ttl` is in seconds. A row with `alias_of` has nothing else.
    """

    class Meta:
        table_name = TOKENS

    token_id = UnicodeAttribute(hash_key=True)
    alias_of = UnicodeAttribute(null=True)
    owner_key = BinaryAttribute(legacy_encoding=False, null=True)
    secrets = BinaryAttribute(legacy_encoding=False, null=True)
    provider = UnicodeAttribute(null=True)
    token = BinaryAttribute(legacy_encoding=False, null=True)
    status = UnicodeAttribute(null=True)
    verified = BooleanAttribute(default=False)
    lost_rules = BooleanAttribute(default=False)
    added = NumberAttribute(default=0)
    servers = UnicodeSetAttribute(null=True)
    registered_at = NumberAttribute(default=0)
    ttl = NumberAttribute(null=True)

    @property
    def subscription_id(self) -> str:
        """Of the kernel's subscription, a UUID."""
        return subscription_id(self.token_id)

    @property
    def client_id(self) -> bytes:
        """Whose that subscription is."""
        return client_id(self.token_id)

    @property
    def device_token(self) -> DeviceToken:
        return DeviceToken(NtfProvider(self.provider), bytes(self.token))

    @property
    def id(self) -> bytes:
        return bytes.fromhex(self.token_id)

    def __repr__(self) -> str:
        return f"StoredToken({self.token_id})"


def token_id(key: StorageKey, token: DeviceToken, owner_key: bytes) -> str:
    """24 bytes in hex; `owner_key` is DER."""
    return key.id_of(_ID_LABEL, token.provider.encode(), token.token, owner_key).hex()


def server_name(server: SmpServer) -> str:
    """As `StoredToken.servers` has it."""
    return sha256(server.encoded).hexdigest()[:16]


def subscription_id(of_token: str) -> str:
    """`of_token` is a token's id."""
    return str(UUID(bytes=bytes.fromhex(of_token)[:16], version=5))
