"""A server's devices as they are now, and how an answer names those that have ended."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from clarion.decisions import SubscriptionStatus
from clarion.networks import ZULIP
from clarion.networks.zulip.devices import DeviceData, Profile, unpack
from clarion.networks.zulip.servers import Server
from clarion.tables import Subscription

ENDED = "DEVICE_NOT_REGISTERED"
"""Says of a device that it is unknown, or its token dead."""
_ATTRIBUTES = ["subscription_id", "client_id", "network", "channel", "token", "status", "network_data"]


def active_devices(server: Server, realm: UUID, profile: Profile, ids: Iterable[str]) -> Mapping[str, Subscription]:
    """Those of the realm that are active, by their ids.

    Reads that cost half as much may be a moment behind, and a server forgets for good what it is told is gone.
    """
    wanted = list(dict.fromkeys(ids))

    def found(some: Sequence[str], *, consistent: bool) -> dict[str, Subscription]:
        rows = devices(server, realm, some, consistent=consistent)
        return {row.subscription_id: row for row, data in rows if _is_active(row) and data.profile is profile}

    seen = found(wanted, consistent=False)
    return seen | found([one for one in wanted if one not in seen], consistent=True)


def ended_devices(server: Server, realm: UUID, ids: Sequence[str]) -> list[tuple[str, DeviceData]]:
    """Those of the realm whose tokens are dead."""
    rows = devices(server, realm, ids, consistent=True)
    return [(row.subscription_id, data) for row, data in rows if not _is_active(row)]


def devices(
    server: Server, realm: UUID, ids: Sequence[str], *, consistent: bool
) -> list[tuple[Subscription, DeviceData]]:
    """Those of the given ones that are the realm's."""
    rows = Subscription.batch_get(ids, consistent_read=consistent, attributes_to_get=_ATTRIBUTES) if ids else ()
    own = (row for row in rows if (row.network, row.client_id) == (ZULIP, server.client_id))
    read = ((row, unpack(row.network_data)) for row in own)
    return [(row, data) for row, data in read if data.realm == realm]


def named_as_ended(profile: Profile, names: Iterable[str]) -> dict[str, Any]:
    """What an answer says of devices that their server is to forget, in the words of its profile."""
    if profile is Profile.SHIPPED:
        return {"delete_token_ids": list(names)}
    return {"errors": [{"device_id": name, "code": ENDED} for name in names]}


def _is_active(row: Subscription) -> bool:
    return bool(row.status == SubscriptionStatus.ACTIVE)
