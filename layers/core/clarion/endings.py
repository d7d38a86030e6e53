"""What ends subscriptions: a token that its provider declares dead, a proof that did not come, another's takeover.

An empty generation comes into force, so that none of the rules counts any more. A row that has ended is listed for
`DEAD_SECONDS`; then DynamoDB deletes it by its `ttl`.

A dead token ends all its holders. Some end at once; if there are more, a request comes first, as with all that is cleaned
up, and the function `cleanup` ends the rest:

    declare_dead ─┬─▶ DeadTokenMessage ──▶ queue `cleanup` ──▶ end_holders, page after page
                  └─▶ the first page ends
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import batched
from typing import Any, NamedTuple
from uuid import UUID

from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError
from pynamodb.transactions import TransactWrite

from clarion.decisions import Environment, SubscriptionStatus
from clarion.messages import DeadTokenMessage
from clarion.tables import Subscription, Token, find_subscription, lost_race, unchanged, update_subscription
from clarion.tokens import free_token, hash_of, holder_of
from clarion.wake_ups import remove_expiry, remove_wake_up

DEATH_ATTEMPTS = 3
DEAD_SECONDS = 30 * 86_400
HOLDERS = 25
"""Of one token, that are read and ended at a time: a page."""


def ttl_of(end: int) -> int:
    """Of a subscription that ends then; `end` is in UNIX milliseconds."""
    return end // 1000 + DEAD_SECONDS


class Death(NamedTuple):
    """A provider's answer that a token is dead, since `since` if it says when. Instants are UNIX milliseconds.

    An answer that may be about the app that was tried with the token is not `certain`: it says nothing of other
    subscriptions.
    """

    reason: str
    at: int
    since: int | None = None
    certain: bool = True


def declare_dead(
    connection: Connection,
    tried: Subscription,
    death: Death,
    *,
    request_cleanup: Callable[[list[str]], None] = lambda _: None,
    request_endings: Callable[[DeadTokenMessage], None] = lambda _: None,
) -> list[Subscription]:
    """Mark the subscriptions of a token invalid and free it for new ones; returns the rows as they are after that.

    Those are `tried`, which may be pending, and, before it, what other subscriptions the token has for the same app and
    environment, if the death is `certain`: a page of them. `request_cleanup` is called with their ids before any is ended,
    and before it `request_endings`, if there are more.

    Nothing of a subscription changes if it has gone, has another token than the one that was tried, is invalid already,
    no longer owns its token, or was registered after it was tried or after `death.since`: then the provider means an
    earlier registration of the same token. Raises `TransactWriteError` if a row changes again and again meanwhile: try later.

    Costs one query, for other holders, and one transaction: `tried` is taken for current, and read again only if the
    transaction finds that it isn't.
    """
    others, more = _first_others(tried) if death.certain else ([], False)
    if more:
        request_endings(_endings_of(tried, death))
    request_cleanup([row.subscription_id for row in [*others, tried]])
    ended = [_declare_dead(connection, row, death) for row in [*others, tried]]
    return [row for row in ended if row]


def end_holders(
    connection: Connection,
    dead: DeadTokenMessage,
    *,
    request_cleanup: Callable[[list[str]], None] = lambda _: None,
) -> Iterator[Subscription]:
    """End what other subscriptions a dead token has, one by one; yields each row as it is after that.

    What has ended holds the token no more, so whoever begins again goes on. What registered after the death lives.
    Otherwise as `declare_dead`; `request_cleanup` is called for a page.
    """
    where = _Reached(dead.token_hash, dead.app, dead.environment)
    death = Death(dead.reason, dead.at, since=dead.since)
    for holders in batched(Token.query(dead.token_hash), HOLDERS, strict=False):
        if rows := _rows_of(holders, where):
            request_cleanup([row.subscription_id for row in rows])
            yield from filter(None, (_declare_dead(connection, row, death) for row in rows))


def expire(
    pending: Subscription, now: int, *, request_cleanup: Callable[[list[str]], None] = lambda _: None
) -> Subscription | None:
    """Make a subscription expired whose proof did not come; None, with nothing changed, if it is another by now.

    `request_cleanup` is called before. It holds no token.
    """
    request_cleanup([pending.subscription_id])
    changes = _end_changes(pending, SubscriptionStatus.EXPIRED, None, now)
    actions = Subscription.actions_of(changes)
    return update_subscription(pending.subscription_id, *actions, condition=unchanged(pending))


class _Reached(NamedTuple):
    """Where a subscription is pushed to."""

    token_hash: bytes
    app: str | None
    environment: str

    @classmethod
    def of(cls, row: Subscription) -> "_Reached":
        return cls(hash_of(row), row.app, row.environment or Environment.PRODUCTION.value)


def _first_others(tried: Subscription) -> tuple[list[Subscription], bool]:
    """A page of the token's other subscriptions, and whether there may be more.

    None if `tried` doesn't hold its token itself, as a subscription made for a test.
    """
    holders = list(Token.query(hash_of(tried), limit=HOLDERS))
    more = len(holders) == HOLDERS
    if not _is_among(tried, holders) and not (more and _is_among(tried, _own_holder(tried))):
        return [], False
    return _rows_of([one for one in holders if not _is_among(tried, [one])], _Reached.of(tried)), more


def _is_among(tried: Subscription, holders: Iterable[Token]) -> bool:
    return any(holder.subscription_id == tried.subscription_id for holder in holders)


def _own_holder(tried: Subscription) -> Iterable[Token]:
    return Token.query(hash_of(tried), Token.holder == holder_of(tried.network, tried.subscription_id))


def _rows_of(holders: Iterable[Token], where: _Reached) -> list[Subscription]:
    """The holders' subscriptions that are pushed to there."""
    ids = [holder.subscription_id for holder in holders]
    rows = Subscription.batch_get(ids, consistent_read=True) if ids else ()
    return [row for row in rows if _is_whole(row) and _Reached.of(row) == where]


def _is_whole(row: Subscription) -> bool:
    """A row that can't be read must not keep the others alive."""
    try:
        UUID(row.subscription_id)
        hash_of(row)
    except (ValueError, LookupError, TypeError, AttributeError):
        return False
    return isinstance(row.revision, int | float) and isinstance(row.created_at, int | float)


def _endings_of(tried: Subscription, death: Death) -> DeadTokenMessage:
    """By the time it is delivered, a phone may have registered the token again: the death is of now at the latest."""
    token_hash, app, environment = _Reached.of(tried)
    return DeadTokenMessage(
        token_hash=token_hash,
        app=app,
        environment=environment,
        reason=death.reason,
        at=death.at,
        since=death.at if death.since is None else death.since,
    )


def _declare_dead(connection: Connection, tried: Subscription, death: Death) -> Subscription | None:
    row: Subscription | None = tried
    for attempt in range(1, DEATH_ATTEMPTS + 1):
        if row is None or not _is_as_registered(row, tried) or not SubscriptionStatus(row.status).has_rules:
            return None
        if death.since is not None and row.created_at > death.since:
            return None
        try:
            return _end(connection, row, death.reason, death.at)
        except TransactWriteError as error:
            if row.status == SubscriptionStatus.ACTIVE and _is_anothers(error):
                return None
            if attempt == DEATH_ATTEMPTS or not lost_race(error):
                raise
        row = find_subscription(tried.subscription_id)
    return None


def _is_as_registered(row: Subscription, tried: Subscription) -> bool:
    return bool(row.token == tried.token and row.created_at == tried.created_at)


def end(write: TransactWrite, row: Subscription, status: SubscriptionStatus, reason: str, now: int) -> Subscription:
    """Add a subscription's end to a transaction, which fails if `row` is no longer what it was; returns what it becomes.

    The token is left to the caller.
    """
    changes = _end_changes(row, status, reason, now)
    write.update(row, actions=Subscription.actions_of(changes), condition=unchanged(row))
    remove_wake_up(write, row)
    remove_expiry(write, row)
    return Subscription(**(row.attribute_values | changes))


def _end(connection: Connection, row: Subscription, reason: str, now: int) -> Subscription:
    """A pending subscription has no token to free."""
    with TransactWrite(connection=connection) as write:
        if row.status == SubscriptionStatus.ACTIVE:
            free_token(write, row)
        return end(write, row, SubscriptionStatus.INVALID, reason, now)


def _end_changes(row: Subscription, status: SubscriptionStatus, reason: str | None, now: int) -> dict[str, Any]:
    """Of the row's attributes: none of its rules is in force any more."""
    return {
        "status": status.value,
        "status_reason": reason,
        "revision": row.revision + 1,
        "generation": row.revision + 1,
        "rule_count": 0,
        "updated_at": now,
        "ttl": ttl_of(now),
    }


def _is_anothers(error: TransactWriteError) -> bool:
    """Whether the transaction failed because the token belongs to another subscription."""
    # pynamodb puts deletions, in the order they were added, before updates.
    of_token, *_, of_row = error.cancellation_reasons or (None, None)
    return of_row is None and of_token is not None and of_token.code == "ConditionalCheckFailed"
