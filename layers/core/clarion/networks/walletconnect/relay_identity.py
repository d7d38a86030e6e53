"""The key by which relays know who subscribes to the topics, in a row beside these.

All tasks of ingest are one client, now and after their end: a relay hands a client what waits in its mailbox and no more,
but whoever is new to it all that it keeps, which is a month of messages. Whoever has this key can take what waits, and
open none of it.
"""

import os

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from clarion.networks.walletconnect.did import KEY_BYTES
from clarion.networks.walletconnect.topics import RelaySubscriber

_ROW = "subscriber"
"""In place of a topic. It is in no bucket, and so not in the index."""


def subscriber_key() -> Ed25519PrivateKey:
    """It is made by whoever asks first."""
    row = RelaySubscriber(_ROW)
    row.update([RelaySubscriber.key.set(RelaySubscriber.key | os.urandom(KEY_BYTES))])
    return Ed25519PrivateKey.from_private_bytes(row.key)
