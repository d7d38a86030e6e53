"""The bodies of pushes that come without one: each is made, at every attempt, of what its network's row holds then."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import batched

from pynamodb.connection import Connection

from clarion.faults import AWS_ERRORS
from clarion.networks import Row, network
from clarion.providers.outcomes import Refused, RetryLater
from clarion.rows import plain
from clarion.tables import BATCH_GET_ITEMS
from dispatch.attempts import UNTRIED, Attempt
from dispatch.pushes import Stale

ROW_UNREAD = RetryLater(status=None, reason="the network's row could not be read")
NOTHING_TO_SEND = Stale(reason="nothing to send")


def add_bodies(attempts: Iterable[Attempt], connection: Connection, table_prefix: str) -> None:
    """Give each message without a body its own, or the attempt a verdict. One request for up to 100 of a network."""
    by_network: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.verdict is UNTRIED and attempt.message.body is None:
            by_network[attempt.message.network].append(attempt)
    for name, without_body in by_network.items():
        wanted = {str(attempt.message.subscription_id) for attempt in without_body}
        rows = _read(connection, f"{table_prefix}{network(name).needs.body_table}", wanted)
        for attempt in without_body:
            _add_body(attempt, rows)


def _add_body(attempt: Attempt, rows: Mapping[str, Row | None]) -> None:
    message = attempt.message
    subscription_id = str(message.subscription_id)
    if subscription_id not in rows:
        attempt.verdict = ROW_UNREAD
        return
    row, make = rows[subscription_id], network(message.network).body_of_row
    try:
        body = make(message, row) if make and row else None
    except Exception as error:  # noqa: BLE001 - of any network, which may raise anything
        attempt.verdict = Refused(status=None, reason=f"no body: {type(error).__name__}")
        return
    if body is None:
        attempt.verdict = NOTHING_TO_SEND
    else:
        attempt.message = message.model_copy(update={"body": body})


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
