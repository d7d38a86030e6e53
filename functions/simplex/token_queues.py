"""All queues of a token, as many at a time as a transaction takes, each time only if the token is what it was.

So whoever is late changes nothing, and whoever begins again goes on: what is done already is passed over. Functions
raise `ContendedError` and `OutOfTimeError`; `until` is in seconds of the monotonic clock.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import batched

from pynamodb.connection import Connection
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.transactions import TransactWrite

from clarion.command_queue import MayPassError, OutOfTimeError
from clarion.networks.simplex.queues import ENDED, FollowedQueue, ending, queues_of
from clarion.networks.simplex.tokens import StoredToken, is_as_read, is_gone
from clarion.tables import transact

TRANSACTION_QUEUES = 99
"""A transaction takes 100 items, one of which is the token."""


class ContendedError(MayPassError):
    """Others kept changing what is to be changed."""


def keep_queues(connection: Connection, token: StoredToken, until: float) -> Sequence[bytes]:
    """As long as the token. The keys of all."""
    rows = list(queues_of(token.token_id))
    keys = [bytes(row.queue_key) for row in rows]
    others = [key for key, row in zip(keys, rows, strict=True) if row.ttl != token.ttl]
    action = FollowedQueue.ttl.remove() if token.ttl is None else FollowedQueue.ttl.set(token.ttl)
    for write in _writes(token.token_id, is_as_read(token), others, [action]):
        _transact(connection, write, until)
    return keys


def end_queues(connection: Connection, token_id: str, now: int, until: float) -> None:
    """Those of a token that is gone; `now` is in UNIX milliseconds."""
    keys = [bytes(row.queue_key) for row in queues_of(token_id)]
    for write in _writes(token_id, is_gone(now), keys, ending(now)):
        _transact(connection, write, until)


def _writes(
    token_id: str, unchanged: Condition, keys: Iterable[bytes], actions: list[Action]
) -> Iterator[Callable[[TransactWrite], None]]:
    its = (FollowedQueue.token_id == token_id) & (FollowedQueue.bucket != ENDED)
    for several in batched(keys, TRANSACTION_QUEUES, strict=False):

        def write(transaction: TransactWrite, several: tuple[bytes, ...] = several) -> None:
            transaction.condition_check(StoredToken, token_id, condition=unchanged)
            for key in several:
                transaction.update(FollowedQueue(key), actions=actions, condition=its)

        yield write


def _transact(connection: Connection, write: Callable[[TransactWrite], None], until: float) -> None:
    if time.monotonic() > until:
        raise OutOfTimeError("there was not the time for all of its queues")
    if not transact(connection, write):
        raise ContendedError("others change the token or its queues")
