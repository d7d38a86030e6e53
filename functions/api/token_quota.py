"""How many pushes a device token gets in a minute, from all its senders together: who makes up senders reaches it no more often."""

from clarion.channels import Channel
from clarion.tokens import token_hash


def quota_of(channel: Channel, token: str) -> str:
    """The name of the token's quota. An iPhone's token is the same in either case."""
    return f"pushes_to:{token_hash(channel, token.lower() if channel is Channel.APNS else token).hex()}"
