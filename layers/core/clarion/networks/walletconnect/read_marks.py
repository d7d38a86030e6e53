"""Which notifications have been read: those that their subscriber has marked, and those that their dapp has, all at once."""

from clarion.networks.walletconnect.notifications import SentNotification
from clarion.networks.walletconnect.projects import DappApp


def mark_read_through(app: str, now: int) -> None:
    """Whatever the app has sent until now; `now` is in UNIX milliseconds."""
    DappApp(app).update([DappApp.read_through.set(now)], condition=DappApp.app.exists())


def is_read(row: SentNotification, app: DappApp) -> bool:
    return bool(row.is_read or (row.kept_at or row.sent_at) <= app.read_through)
