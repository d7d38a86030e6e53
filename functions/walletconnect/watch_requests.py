"""A wallet asks to be told of all changes of an account's subscriptions, to one app or to all, for a day."""

from collections.abc import Sequence

from clarion.backoff import WRITE_ATTEMPTS
from clarion.networks.walletconnect.projects import find_app
from clarion.networks.walletconnect.subscriptions import account_key
from clarion.networks.walletconnect.watchers import ANY_APP, PLACES, WATCH_SECONDS, Watcher, watchers_of
from clarion.tables import save_if
from walletconnect.accepted_tokens import accept
from walletconnect.authorization import SignedRequest
from walletconnect.refusals import NotServed, RefusalReason
from walletconnect.subscription_changes import ContendedRow


def watch(request: SignedRequest, key: bytes) -> int:
    """What a wallet asked for before is replaced, but not by an older request, by `iat`. `key` is what it is answered under.

    Returns when it was accepted, in UNIX milliseconds. Raises `NotServed`, or `ContendedRow`.
    """
    if request.app is not None and find_app(request.app) is None:
        raise NotServed(RefusalReason.UNKNOWN_APP)
    now = request.arrival.at_ms // 1000
    for _ in range(WRITE_ATTEMPTS):
        watchers = watchers_of(request.account, now)
        own = [row for row in watchers if is_own(row, request, key)]
        places = [row.watcher for row in own] or _free(watchers)
        if not places:
            raise NotServed(RefusalReason.TOO_MANY_WATCHERS)
        at_ms = accept(request)
        if any(row.iat > request.iat for row in own):
            return at_ms
        if _save(_watcher(places[0], request, key, at_ms), now):
            for row in own[1:]:
                row.delete()
            return at_ms
    raise ContendedRow


def is_own(row: Watcher, request: SignedRequest, key: bytes) -> bool:
    """Whether it is the wallet's that asks: its identity key may be a new one, and then its topic is the same."""
    return row.identity_key == request.signer or row.response_key == key


def _free(watchers: Sequence[Watcher]) -> list[str]:
    taken = {row.watcher for row in watchers}
    return [place for place in PLACES if place not in taken]


def _save(watcher: Watcher, now: int) -> bool:
    """Whether its place is free, or its own by an earlier request."""
    ended = Watcher.ttl <= now
    own = (Watcher.identity_key == watcher.identity_key) | (Watcher.response_key == watcher.response_key)
    earlier = Watcher.iat <= watcher.iat
    return save_if(watcher, condition=Watcher.account.does_not_exist() | ended | (own & earlier))


def _watcher(place: str, request: SignedRequest, key: bytes, at_ms: int) -> Watcher:
    ends = at_ms // 1000 + WATCH_SECONDS
    return Watcher(
        account_key(request.account),
        place,
        response_key=key,
        identity_key=request.signer,
        app=request.app or ANY_APP,
        iat=request.iat,
        ttl=min(ends, request.identity_until or ends),
    )
