"""What a subscriber was sent in the last 30 days: a wallet reads it page by page, and marks what has been read."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from clarion.networks.walletconnect.notifications import SentNotification, newest_first
from clarion.networks.walletconnect.projects import DappApp
from clarion.networks.walletconnect.read_marks import is_read
from clarion.tables import update_if


def page(app: DappApp, subscription_id: str, claims: Mapping[str, Any], now: int) -> dict[str, object]:
    """The claims of the answer: a page of notifications, and whether more come after it. `now` is in UNIX seconds.

    `claims` say how many at most (`lmt`), after which one (`aft`), and whether the unread come first (`urf`).
    """
    rows = list(newest_first(subscription_id, now))
    if claims.get("urf"):
        rows.sort(key=lambda row: is_read(row, app))
    rest = _after(rows, claims.get("aft"))
    first, more = rest[: claims["lmt"]], rest[claims["lmt"] :]
    return {
        "nfs": [_notification(row, app) for row in first],
        "mre": bool(more),
        "mur": any(not is_read(row, app) for row in more),
    }


def mark_as_read(subscription_id: str, ids: Collection[str] | None, now: int, executor: Executor) -> None:
    """Those of these ids; None: all."""
    unread = (row for row in newest_first(subscription_id, now) if not row.is_read)
    for _ in executor.map(_mark, [row for row in unread if ids is None or row.notification_id in ids]):
        pass


def _mark(row: SentNotification) -> None:
    update_if(row, SentNotification.is_read.set(True), condition=SentNotification.notification_id.exists())


def _after(rows: Sequence[SentNotification], notification_id: str | None) -> Sequence[SentNotification]:
    """All, without an id; none, if the id is none of theirs."""
    if notification_id is None:
        return rows
    ids = [row.notification_id for row in rows]
    return rows[ids.index(notification_id) + 1 :] if notification_id in ids else ()


def _notification(row: SentNotification, app: DappApp) -> dict[str, object]:
    return {"id": row.notification_id, "sent_at": int(row.sent_at), **row.content, "is_read": is_read(row, app)}
