"""`clarion zulip keys`, `rotate-key` and `retire-key`: the bouncer's key pairs, and how many devices each one registered."""

import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import click
from pydantic import BaseModel
from rich.console import Group, RenderableType

from clarion.decisions import SubscriptionStatus
from clarion.networks import ZULIP
from clarion.networks.zulip import devices, keys
from clarion.networks.zulip.keys import BouncerKey, BouncerKeys
from clarion.networks.zulip.needs import BOUNCER_SECRET
from clarion.tables import Subscription
from console import stored_secrets
from console.deployment import Deployment
from console.faults import Trouble
from console.output import UNKNOWN, Report, confirm, progress, table
from console.stored_secrets import StoredSecret

LATELY_S = 30 * 86_400
COUNTS = ("devices", "of the last month")


class KeyUse(BaseModel):
    """A key, with the active devices that it registered, and those that it registered in the last month."""

    public: str
    made_at: datetime
    retired_at: datetime | None
    devices: int
    lately: int

    @property
    def cells(self) -> list[str]:
        retired = f"{self.retired_at:%Y-%m-%d}" if self.retired_at else UNKNOWN
        return [self.public, f"{self.made_at:%Y-%m-%d}", retired, str(self.devices), str(self.lately)]


class Keys(Report):
    """`made` is the public key that was made just now; `unknown` counts devices of keys that are not listed."""

    wrapped = False

    keys: tuple[KeyUse, ...]
    unknown: int
    made: str | None = None

    def __rich__(self) -> RenderableType:
        shown = table(None, "public key", "made", "retired", *COUNTS, numbers=COUNTS)
        for one in self.keys:
            shown.add_row(*one.cells)
        parts: list[RenderableType] = [shown]
        if self.made:
            parts.append(f"For the app's next release: {self.made}")
        if self.unknown:
            parts.append(f"{self.unknown} devices were registered by keys that are not listed.")
        return Group(*parts)


class StoredKeys(NamedTuple):
    """With the secret that holds them."""

    keys: BouncerKeys
    secret: StoredSecret


class Devices(NamedTuple):
    """How many there are of each key, by the prefix that they remember of it; those of the last month apart."""

    every: Counter[bytes]
    lately: Counter[bytes]


def list_keys(here: Deployment) -> Keys:
    return _report(_read(here).keys, _count())


def rotate(here: Deployment, *, first: bool, yes: bool) -> Keys:
    """Add a key. `first` replaces what the secret was made with, which holds none."""
    known = _none_yet(here) if first else _read(here)
    confirm(f"Add a bouncer key to {here}? The others stay good.", yes=yes)
    rotated = known.keys.rotated(int(time.time()))
    stored_secrets.replace(known.secret, rotated.text)
    return _report(rotated, _count()).model_copy(update={"made": rotated.keys[-1].public})


def retire(here: Deployment, public: str, *, yes: bool) -> Keys:
    """Forget a key's private half: whoever seals for it is refused from then on."""
    known = _read(here)
    if public not in known.keys.opening:
        raise click.UsageError("PUBLIC is none of the keys that `clarion zulip keys` shows as good")
    if len(known.keys.opening) == 1:
        raise click.UsageError("this is the only key: `clarion zulip rotate-key` makes the next one")
    counted = _count()
    confirm(_question(here, public, counted), yes=yes)
    retired = known.keys.retired(public, int(time.time()))
    stored_secrets.replace(known.secret, retired.text)
    return _report(retired, counted)


def _question(here: Deployment, public: str, counted: Devices) -> str:
    return (
        f"Retire {public} of {here}? In the last month {counted.lately[_prefix(public)]} devices registered with it; "
        "apps that have no later key can't register any more."
    )


def _secret_id(here: Deployment) -> str:
    return f"{here.prefix}{BOUNCER_SECRET}"


def _read(here: Deployment) -> StoredKeys:
    stored = stored_secrets.read(_secret_id(here))
    try:
        return StoredKeys(keys.read(stored.text), stored)
    except ValueError:
        raise Trouble(f"{stored.secret_id} holds no keys; `clarion zulip rotate-key --first` makes the first") from None


def _none_yet(here: Deployment) -> StoredKeys:
    stored = stored_secrets.read(_secret_id(here))
    try:
        keys.read(stored.text)
    except ValueError:
        return StoredKeys(BouncerKeys(), stored)
    raise click.UsageError("there are keys already: leave out --first")


def _report(known: BouncerKeys, counted: Devices) -> Keys:
    uses = tuple(_use(key, counted) for key in known.keys)
    return Keys(keys=uses, unknown=counted.every.total() - sum(use.devices for use in uses))


def _count() -> Devices:
    with progress("counting devices"):
        found = list(_registered())
    since = (time.time() - LATELY_S) * 1000
    return Devices(Counter(key for key, _ in found), Counter(key for key, at in found if at >= since))


def _registered() -> Iterator[tuple[bytes, int]]:
    """Of each active device the prefix of its key, and when it was registered last, in UNIX milliseconds.

    Reads all subscriptions, without their tokens: a cent for a million of them.
    """
    active = (Subscription.network == ZULIP) & (Subscription.status == SubscriptionStatus.ACTIVE)
    for row in Subscription.scan(active, attributes_to_get=["subscription_id", "created_at", "network_data"]):
        try:
            data = devices.unpack(row.network_data or b"")
        except ValueError:
            yield b"", 0
        else:
            yield data.key_prefix, int(row.created_at)


def _use(key: BouncerKey, counted: Devices) -> KeyUse:
    prefix = _prefix(key.public)
    return KeyUse(
        public=key.public,
        made_at=datetime.fromtimestamp(key.made_at, UTC),
        retired_at=datetime.fromtimestamp(key.retired_at, UTC) if key.retired_at else None,
        devices=counted.every[prefix],
        lately=counted.lately[prefix],
    )


def _prefix(public: str) -> bytes:
    return b64decode(public)[: devices.KEY_PREFIX_BYTES]
