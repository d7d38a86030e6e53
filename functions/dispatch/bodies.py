"""The bodies of pushes that come without one: each is made, at every attempt, of what its network's row holds then.

Where a network's pushes report the newest items of a subscription, one push brings all of them. The others, of this batch
or of later ones, are coalesced with it: what was delivered is noted in the row.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import batched

from botocore.exceptions import ClientError
from pynamodb.connection import Connection

from clarion import newest
from clarion.decisions import Purpose
from clarion.faults import AWS_ERRORS
from clarion.networks import Row, network
from clarion.newest_updates import NewestKey, noting_sent, noting_sent_alone
from clarion.providers.outcomes import Refused, RetryLater
from clarion.rows import plain
from clarion.tables import BATCH_GET_ITEMS
from dispatch.attempts import UNTRIED, Attempt
from dispatch.pushes import Coalesced, Stale, is_networks_own

ROW_UNREAD = RetryLater(status=None, reason="the network's row could not be read")
NOTHING_TO_SEND = Stale(reason="nothing to send")
SENT_BEFORE = Coalesced(reason="sent before")
SENT_WITH_ANOTHER = Coalesced(reason="sent with another")


def add_bodies(attempts: Iterable[Attempt], connection: Connection, table_prefix: str) -> None:
    """Give each message without a body its own, or the attempt a verdict. One request for up to 100 of a network."""
    by_network: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        is_asked = attempt.verdict is UNTRIED and attempt.message.body is None
        if is_asked and not is_networks_own(attempt.message):
            by_network[attempt.message.network].append(attempt)
    for name, without_body in by_network.items():
        wanted = {str(attempt.message.subscription_id) for attempt in without_body}
        rows = _read(connection, _table(name, table_prefix), wanted)
        for attempt in without_body:
            _add_body(attempt, rows)
        _coalesce(without_body)


def note_sent(attempt: Attempt, connection: Connection, table_prefix: str) -> None:
    """Note in the row what was delivered, where a network keeps count.

    Raises what AWS does: then another push may repeat it.
    """
    of_network, found = network(attempt.message.network), attempt.newest
    if found is None or of_network.newest is None:
        return
    key = NewestKey(_table(of_network.name, table_prefix), str(attempt.message.subscription_id))
    if not _update(connection, noting_sent(key, of_network.newest, found)):
        # More may have come meanwhile: then nothing can be removed.
        _update(connection, noting_sent_alone(key, of_network.newest, found))


def _update(connection: Connection, request: Mapping[str, object]) -> bool:
    """False if its condition doesn't hold. Raises `PynamoDBException` and what botocore raises."""
    try:
        connection.dispatch("UpdateItem", dict(request))
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        return False
    return True


def _table(name: str, table_prefix: str) -> str:
    return f"{table_prefix}{network(name).needs.body_table}"


def _coalesce(attempts: Iterable[Attempt]) -> None:
    """Of each subscription, let the push of the highest number go out: it brings what the others are about."""
    of_subscription: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.newest is not None and attempt.verdict is UNTRIED:
            of_subscription[str(attempt.message.subscription_id)].append(attempt)
    for several in of_subscription.values():
        last = max(several, key=lambda one: one.message.number or 0)
        for attempt in several:
            if attempt is not last:
                attempt.verdict = SENT_WITH_ANOTHER


def _add_body(attempt: Attempt, rows: Mapping[str, Row | None]) -> None:
    message = attempt.message
    subscription_id = str(message.subscription_id)
    if subscription_id not in rows:
        attempt.verdict = ROW_UNREAD
        return
    row, of_network = rows[subscription_id], network(message.network)
    try:
        attempt.newest = newest.read(row) if row and of_network.newest else None
        body = of_network.body_of_row(message, row) if of_network.body_of_row and row else None
    except Exception as error:  # noqa: BLE001 - of any network, which may raise anything
        attempt.verdict = Refused(status=None, reason=f"no body: {type(error).__name__}", given_up=True)
        return
    if _is_sent(attempt):
        attempt.verdict = SENT_BEFORE
    elif body is None:
        attempt.verdict = NOTHING_TO_SEND
    else:
        attempt.message = message.model_copy(update={"body": body})


def _is_sent(attempt: Attempt) -> bool:
    number, found = attempt.message.number, attempt.newest
    if number is None or found is None:
        return False
    # A late one is also about what came after it was sent, and could do without a push of its own for that.
    is_late = attempt.message.purpose is Purpose.REFRESH
    return (found.number if is_late else number) <= found.sent


def _read(connection: Connection, table: str, subscription_ids: Collection[str]) -> dict[str, Row | None]:
    """By subscription, None where there is no row. Those that could not be read are left out."""
    found: dict[str, Row | None] = {}
    for ids in batched(subscription_ids, BATCH_GET_ITEMS, strict=False):
        # The push may have been sent a moment after what it is about was written.
        asked = {"Keys": [{"subscription_id": {"S": one}} for one in ids], "ConsistentRead": True}
        try:
            answer = connection.dispatch("BatchGetItem", {"RequestItems": {table: asked}})
        except AWS_ERRORS:
            continue
        unread = answer["UnprocessedKeys"].get(table, {"Keys": []})["Keys"]
        found |= dict.fromkeys({*ids} - {key["subscription_id"]["S"] for key in unread})
        found |= {row["subscription_id"]["S"]: plain(row) for row in answer["Responses"].get(table, [])}
    return found
