"""`push/e2ee/expired`: which of a realm's devices have ended, page by page. Zulip's proposal wants it for a cron job.

They are listed for as long as their rows are kept, `clarion.endings.DEAD_SECONDS`; after that they are unknown, and so
named by `notify`.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from api.networks.zulip.arguments import Arguments
from api.networks.zulip.call import ServerCall
from api.networks.zulip.devices import ended_devices, named_as_ended
from api.networks.zulip.token_ids import text_of
from clarion.networks.zulip.devices import Profile
from clarion.tables import Subscription

PAGE_DEVICES = 1_000
"""Of the server that a page looks at, whatever they are."""


class PageArguments(Arguments):
    """`cursor` is what the page before ended with."""

    realm_uuid: UUID
    cursor: UUID | None = None


def expired(call: ServerCall) -> Mapping[str, Any]:
    """A page may be empty although others follow. The last one has no cursor."""
    asked = call.query(PageArguments)
    call.realm(asked.realm_uuid)
    ids = _page(call.server.client_id, asked.cursor)
    ended = ended_devices(call.server, asked.realm_uuid, ids)
    token_ids = [text_of(data.number) for _, data in ended if data.profile is Profile.SHIPPED]
    device_ids = [subscription_id for subscription_id, data in ended if data.profile is Profile.PROPOSED]
    return {
        **named_as_ended(Profile.SHIPPED, token_ids),
        **named_as_ended(Profile.PROPOSED, device_ids),
        "cursor": ids[-1] if len(ids) == PAGE_DEVICES else None,
    }


def _page(client_id: bytes, after: UUID | None) -> list[str]:
    """In their ids' order. One made in the last moments may be missing, but none that has ended."""
    beyond = Subscription.subscription_id > str(after) if after else None
    found = Subscription.by_client.query(client_id, beyond, limit=PAGE_DEVICES)
    return [row.subscription_id for row in found]
