"""What every provider's app makes a push from."""

from typing import NamedTuple


class Order[Body](NamedTuple):
    """One push, ordered of an app. `token` is the subscription's address, and never shown.

    `body` is the payload's: bytes, or a message where the provider wants one. `push_id` is a UUID. Of several pushes
    with one `collapse_id` a phone shows the latest. `useful_until` and `now` are in UNIX seconds. A `call` rings now or
    never; a `background` push shows nothing. Apple keeps one push for a phone that is offline, so one that is `transient`,
    as the next one comes by itself or others matter more, must not take the place of another. `priority` is as in
    `Payload`.
    """

    token: str
    body: Body
    push_id: str
    collapse_id: str
    useful_until: float
    now: float
    call: bool = False
    background: bool = False
    transient: bool = False
    priority: int | None = None

    def __repr__(self) -> str:
        return f"Order({self.push_id})"
