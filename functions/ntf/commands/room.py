"""Room for another queue of a token that has as many as it may, or on as many servers.

Agents give up nothing that has ended: they make it anew, and so what has ended would fill every token some day.

full ──▶ all of its queues are read ──▶ those that have ended are given up ──▶ its servers are those of the others
"""

from collections.abc import Callable, Sequence
from itertools import batched

from clarion.backoff import WRITE_ATTEMPTS
from clarion.networks.simplex.bounds import SEARCH_SECONDS
from clarion.networks.simplex.queues import KEPT, FollowedQueue, queue_of, queues_of
from clarion.networks.simplex.tokens import StoredToken, is_as_read, server_name
from clarion.tables import actions_of, update_if
from ntf.commands.store import NtfStore

_MOST_AT_ONCE = 49
"""Queues that one transaction gives up: it takes 100 items, two of each queue and the subscription."""
_UNENDED_SECONDS = 60
"""After which a search that AWS has cut off may be repeated."""


def make_room(store: NtfStore, token: StoredToken, give_up: Callable[[Sequence[FollowedQueue]], bool]) -> bool:
    """Whether it is worth trying again, which is once an hour at most: the token has changed then.

    `give_up` is false if one of the rows has changed meanwhile: all are read again.
    """
    now = store.clock()
    if not _begins(token, now):
        return False
    for _ in range(WRITE_ATTEMPTS):
        rows = _rows_of(token)
        ended = [row for row in rows if row.status not in KEPT]
        if all(give_up(several) for several in batched(ended, _MOST_AT_ONCE, strict=False)):
            break
    servers = {server_name(queue_of(bytes(row.queue)).server) for row in rows if row.status in KEPT}
    changes = actions_of(StoredToken, {"servers": servers or None, "searched_at": now})
    # Where another command has added a server meanwhile, the queues that have been given up make room all the same.
    return update_if(token, *changes, condition=StoredToken.servers == token.servers) or bool(ended)


def _rows_of(token: StoredToken) -> list[FollowedQueue]:
    """Another token may have taken one over, and the index may not know that yet."""
    keys = [bytes(row.queue_key) for row in queues_of(token.token_id)]
    found = FollowedQueue.batch_get(keys, consistent_read=True)
    return [row for row in found if row.token_id == token.token_id and not row.ended]


def _begins(token: StoredToken, now: int) -> bool:
    """Unless its queues were searched lately. A search that doesn't end counts for a minute only."""
    latest = now - SEARCH_SECONDS * 1000
    if token.searched_at > latest:
        return False
    is_due = StoredToken.searched_at.does_not_exist() | (StoredToken.searched_at <= latest)
    begun = StoredToken.searched_at.set(latest + _UNENDED_SECONDS * 1000)
    return update_if(token, begun, condition=is_as_read(token) & is_due)
