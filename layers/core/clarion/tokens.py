"""Push tokens: how the `tokens` table finds one without storing it, and how a subscription holds and frees one."""

from hashlib import sha256

from pynamodb.transactions import TransactWrite

from clarion.addresses import known_by
from clarion.channels import Channel
from clarion.networks import network
from clarion.tables import Subscription, Token


def token_hash(channel: Channel, token: str) -> bytes:
    """The key of a token's `tokens` row: one token text may exist at more than one provider."""
    return sha256(f"{channel}:".encode() + known_by(channel, token)).digest()


def hash_of(row: Subscription) -> bytes:
    return token_hash(Channel(row.channel), row.token)


def holder_of(network_name: str, subscription_id: str | None) -> str:
    """As whom a subscription holds its token: its network, or itself where the network is `additive`."""
    return f"{network_name}/{subscription_id}" if network(network_name).additive else network_name


def held_token(holder: str, hashed: bytes) -> Token | None:
    """The row by which `holder` holds a token."""
    return next(iter(Token.batch_get([(hashed, holder)], consistent_read=True)), None)


def token_of(row: Subscription) -> Token:
    """The row by which a subscription holds its token."""
    holder = holder_of(row.network, row.subscription_id)
    return Token(hash_of(row), holder, subscription_id=row.subscription_id, client_id=row.client_id)


def free_token(write: TransactWrite, row: Subscription) -> None:
    """Delete a subscription's token in a transaction, which fails if the token is another's by now."""
    # A token without a row is nobody else's.
    still_its = Token.token_hash.does_not_exist() | (Token.subscription_id == row.subscription_id)
    write.delete(Token(hash_of(row), holder_of(row.network, row.subscription_id)), condition=still_its)
