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
from pynamodb.expressions.condition import Condition
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

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
    """A token, or an alias, which has nothing but `alias_of` and the `ttl` of the row that it leads to."""

    class Meta:
        table_name = TOKENS

    token_id = UnicodeAttribute(hash_key=True)
    alias_of = UnicodeAttribute(null=True)
    alias = UnicodeAttribute(null=True)
    owner_key = BinaryAttribute(legacy_encoding=False, null=True)
    secrets = BinaryAttribute(legacy_encoding=False, null=True)
    """Sealed `TokenSecrets`, bound to the `token_id`."""
    provider = UnicodeAttribute(null=True)
    token = BinaryAttribute(legacy_encoding=False, null=True)
    """As the agent sent it."""
    status = UnicodeAttribute(null=True)
    """A `TokenStatus`."""
    verified = BooleanAttribute(default=False)
    """Whether it ever was ACTIVE."""
    follow_up = BooleanAttribute(default=False)
    """Whether what follows its verification may not be done yet."""
    lost_rules = BooleanAttribute(default=False)
    """Whether its subscription has ended since, or its queues have a `ttl`."""
    added = NumberAttribute(default=0)
    """How many queues were added since it has lost its rules."""
    servers = UnicodeSetAttribute(null=True)
    """The `server_name` of each SMP server that it has named."""
    searched_at = NumberAttribute(default=0)
    """When its queues were searched for some that have ended, in UNIX milliseconds."""
    registered_at = NumberAttribute(default=0)
    """When its token was, in UNIX milliseconds: another time for each of its tokens."""
    ttl = NumberAttribute(null=True)
    """UNIX seconds; none while it is ACTIVE."""

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

    def is_over(self, now: int) -> bool:
        """At `now`, in UNIX milliseconds: then it counts as if it were not there."""
        return bool(self.ttl) and self.ttl <= now // 1000

    def __repr__(self) -> str:
        return f"StoredToken({self.token_id})"


def is_gone(now: int) -> Condition:
    """That no token has this id at `now`, in UNIX milliseconds."""
    over = StoredToken.ttl <= now // 1000
    condition: Condition = StoredToken.token_id.does_not_exist() | StoredToken.alias_of.exists() | over
    return condition


def is_as_read(row: StoredToken) -> Condition:
    """That the token has neither been registered anew since `row` was read, nor verified, died, or lost its rules."""
    same = (StoredToken.status == row.status) & (StoredToken.registered_at == row.registered_at)
    condition: Condition = same & (StoredToken.lost_rules == row.lost_rules)
    return condition


def keep_alias(write: TransactWrite, row: StoredToken, ttl: int | None) -> None:
    """As long as the row itself, in a transaction that changes its `ttl`."""
    if row.alias is not None:
        action = StoredToken.ttl.remove() if ttl is None else StoredToken.ttl.set(ttl)
        write.update(StoredToken(row.alias), actions=[action], condition=StoredToken.alias_of == row.token_id)


def delete_alias(write: TransactWrite, row: StoredToken) -> None:
    """In a transaction that deletes the row, or replaces its token."""
    if row.alias is not None:
        its = StoredToken.token_id.does_not_exist() | (StoredToken.alias_of == row.token_id)
        write.delete(StoredToken(row.alias), condition=its)


def token_id(key: StorageKey, token: DeviceToken, owner_key: bytes) -> str:
    """24 bytes in hex; `owner_key` is DER."""
    return key.id_of(_ID_LABEL, token.provider.encode(), token.token, owner_key).hex()


def server_name(server: SmpServer) -> str:
    """As `StoredToken.servers` has it."""
    return sha256(server.encoded).hexdigest()[:16]


def subscription_id(of_token: str) -> str:
    """`of_token` is a token's id."""
    return str(UUID(bytes=bytes.fromhex(of_token)[:16], version=5))
