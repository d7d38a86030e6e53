"""Which tokens that change something have been accepted: each counts once, in whatever envelope it comes.

    first time ──────────────────▶ accepted, and noted until the token expires
    again, in the same message ──▶ carried out again, as after a crash: the same answer
    again, in another message ───▶ replayed

A note outlasts its token by chance alone, and does no harm then.
"""

from clarion.networks.walletconnect.seen import SeenOnce, first_seen
from clarion.tables import find_row
from walletconnect.authorization import SignedRequest
from walletconnect.refusals import NotServed, RefusalReason


def key_of(request: SignedRequest) -> str:
    return f"token {request.hash}"


def accept(request: SignedRequest) -> int:
    """When it was accepted, in UNIX milliseconds. Raises `NotServed`."""
    name, at_ms, _ = request.arrival
    return _accepted_at(first_seen(key_of(request), name, at_ms=at_ms, until=request.exp), request)


def accepted(request: SignedRequest) -> int | None:
    """When it was; None if it is yet to be. Raises `NotServed`."""
    row = find_row(SeenOnce, key_of(request))
    return None if row is None else _accepted_at(row, request)


def note_of(request: SignedRequest) -> SeenOnce:
    """What is yet to be written, if nobody else has."""
    name, at_ms, _ = request.arrival
    return SeenOnce(key_of(request), holder=name, at=at_ms, ttl=request.exp)


def _accepted_at(row: SeenOnce, request: SignedRequest) -> int:
    if row.holder != request.arrival.name:
        raise NotServed(RefusalReason.REPLAYED)
    return int(row.at)
