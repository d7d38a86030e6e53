"""A simulated self-hosted Zulip server: the half of the protocol between its users' apps and its bouncer.

It registers devices asynchronously, and tries again for a day while the bouncer can't be reached; what the bouncer
refuses ends a registration at once. It encrypts notifications, and removes the devices that the bouncer says have
expired. The two profiles of the protocol differ in what it keeps of a device: see `local.zulip_devices`.

    async with ZulipServer("chat.example.org", Bouncer(http, uuid4(), new_org_key())) as server:
        realm = server.add_realm("Engineering")
        await server.join()
        …                                        # apps register: see `local.zulip_client`
        await server.until_registered()
        await server.notify(realm, {"type": "test"})
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import batched, count
from typing import Self
from uuid import uuid4

from local.provider import Clock
from local.zulip_bouncer import Bouncer, BouncerRefusalError, BouncerUnavailableError, JsonObject
from local.zulip_devices import (
    EXPIRED,
    AccountDevice,
    DeviceStatus,
    KeyedDevice,
    LegacyToken,
    PushDevice,
    TokenKind,
    ZulipRealm,
)

LIVENESS_TIMEOUT_S = 24 * 60 * 60
BATCH = 1000
_PROFILES: tuple[type[PushDevice], ...] = (AccountDevice, KeyedDevice)
_LONGEST_DELAY_S = 90.0

type Sleep = Callable[[float], Awaitable[None]]


class ServerError(Exception):
    """The server answers its client with 500."""


@dataclass(frozen=True)
class DeviceEvent:
    """What a server sends its client of a device: what has become of it, and for a failure perhaps the reason."""

    name: str
    status: DeviceStatus
    reason: str | None = None


def backoff() -> Iterator[float]:
    """Seconds to wait after each attempt."""
    delay = 2.0
    while True:
        yield delay
        delay = min(2 * delay, _LONGEST_DELAY_S)


def new_org_key() -> str:
    return secrets.token_hex(32)


class ZulipServer:
    """An async context manager, whose pending registrations end with it. `mails` are those to its administrator.

    `failures` says how many of its clients' next requests it answers with 500.
    """

    def __init__(
        self, hostname: str, bouncer: Bouncer, *, now: Clock = time.time, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.hostname = hostname
        self.bouncer = bouncer
        self.realms: list[ZulipRealm] = []
        self.devices: dict[str, PushDevice] = {}
        self.legacy_tokens: set[LegacyToken] = set()
        self.events: list[DeviceEvent] = []
        self.mails: list[str] = []
        self.failures = 0
        self._now = now
        self._sleep = sleep
        self._device_ids = count(1)
        self._registrations: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for registration in self._registrations:
            registration.cancel()

    def add_realm(self, name: str) -> ZulipRealm:
        host = f"{name.lower().replace(' ', '-')}.{self.hostname}"
        realm = ZulipRealm(uuid4(), host, name, secrets.token_hex(24))
        self.realms.append(realm)
        return realm

    async def join(self) -> bool:
        """Register with the bouncer and report all realms, as `manage.py register_server`; whether the server is new."""
        created = await self.bouncer.register_server(self.hostname, self._contact)
        await self.report_realms()
        return created

    async def rotate_key(self) -> None:
        """As `manage.py register_server --rotate-key`: it keeps the new key once it has reported by the old one."""
        key = new_org_key()
        await self.bouncer.register_server(self.hostname, self._contact, new_org_key=key)
        await self.report_realms()
        self.bouncer.use_key(key)

    async def report_realms(self) -> None:
        """As the cron job does every hour. Raises `LookupError` if the bouncer does not serve one."""
        served = await self.bouncer.report_realms(realm.as_json() for realm in self.realms)
        for realm in self.realms:
            if not served[realm.uuid]:
                raise LookupError(f"no pushes for {realm.name}")

    def register_client_device(self) -> int:
        """The id of a device of the shipped profile, for its app."""
        return next(self._device_ids)

    def statuses(self, realm: ZulipRealm, user_id: int) -> dict[str, DeviceStatus]:
        """What a client is given when it registers an event queue: `push_account_ids`, or `devices`."""
        devices = self.devices.values()
        return {each.name: each.status for each in devices if each.realm == realm and each.user_id == user_id}

    def register(self, device: PushDevice) -> None:
        """For an app: it is pending when this returns. Raises `ServerError`."""
        if self.failures:
            self.failures -= 1
            raise ServerError
        self.devices[device.name] = device
        self._emit(device)
        registration = asyncio.create_task(self._register(device))
        self._registrations.add(registration)
        registration.add_done_callback(self._registrations.discard)

    def unregister(self, name: str) -> None:
        """For an app: nothing is sent to a device of this name any more. The bouncer does not learn of it."""
        if device := self.devices.get(name):
            device.status = DeviceStatus.REMOVED
            self._emit(device)

    async def until_registered(self) -> None:
        """Wait until no registration is under way."""
        while self._registrations:
            await asyncio.gather(*self._registrations)

    async def notify(self, realm: ZulipRealm, content: JsonObject) -> int:
        """Send it to all active devices of the realm; returns how many pushes the bouncer has queued.

        As shipped, what is not encrypted goes first, and an error of it ends both.
        """
        queued = await self._notify_legacy(realm, content)
        for profile in _PROFILES:
            for some in batched(self._active(realm, profile), BATCH, strict=False):
                pushes = {profile.pushes: [device.push(content) for device in some]}
                answer = await self.bouncer.notify(realm.uuid, pushes)
                self._remove_gone(realm, profile, answer)
                queued += answer["apple_successfully_sent_count"] + answer["android_successfully_sent_count"]
        return queued

    async def _notify_legacy(self, realm: ZulipRealm, content: JsonObject) -> int:
        """To the tokens of apps that do not encrypt, those of all users together; removes what the bouncer does not have."""
        tokens = {kind: self._legacy(realm, kind) for kind in TokenKind}
        if not any(tokens.values()):
            return 0
        android, apple = tokens[TokenKind.FCM], tokens[TokenKind.APNS]
        answer = await self.bouncer.notify_legacy(realm.uuid, content, android=android, apple=apple)
        gone = answer["deleted_devices"]
        removed = {TokenKind.FCM: gone["android_devices"], TokenKind.APNS: gone["apple_devices"]}
        self.legacy_tokens = {each for each in self.legacy_tokens if each.token not in removed[each.kind]}
        return int(answer["total_android_devices"]) + int(answer["total_apple_devices"])

    def _legacy(self, realm: ZulipRealm, kind: TokenKind) -> list[str]:
        return sorted(each.token for each in self.legacy_tokens if (each.realm, each.kind) == (realm, kind))

    async def remove_expired(self) -> None:
        """As the cron job does that asks the bouncer which devices have expired."""
        for realm in self.realms:
            async for page in self.bouncer.expired(realm.uuid):
                for profile in _PROFILES:
                    self._remove_gone(realm, profile, page)

    @property
    def _contact(self) -> str:
        return f"admin@{self.hostname}"

    def _active(self, realm: ZulipRealm, profile: type[PushDevice]) -> list[PushDevice]:
        return [
            each
            for each in self.devices.values()
            if each.realm == realm and each.status is DeviceStatus.ACTIVE and isinstance(each, profile)
        ]

    async def _register(self, device: PushDevice) -> None:
        try:
            answer = await self._answer_to(device)
        except BouncerRefusalError as refusal:
            self._fail(device, refusal.code)
        else:
            self._confirm(device, answer)

    async def _answer_to(self, device: PushDevice) -> JsonObject:
        """What the bouncer answers to the registration, once it can be reached; raises `BouncerRefusalError`."""
        deadline, delays = self._now() + LIVENESS_TIMEOUT_S, backoff()
        while True:
            try:
                return await self.bouncer.register_device(device.request)
            except BouncerUnavailableError as error:
                if self._now() > deadline:
                    raise BouncerRefusalError(EXPIRED, "the bouncer was away for too long") from error
            await self._sleep(next(delays))

    def _confirm(self, device: PushDevice, answer: JsonObject) -> None:
        device.confirm(answer)
        if self._knows(device):
            self._emit(device)

    def _fail(self, device: PushDevice, code: str) -> None:
        """An expired registration is the administrator's affair: between server and bouncer something has long been down."""
        if code == EXPIRED:
            self.mails.append(f"A push registration of user {device.user_id} of {device.realm.name} has expired.")
        device.status, reason = device.failure(code)
        if self._knows(device):
            self._emit(device, reason)

    def _remove_gone(self, realm: ZulipRealm, profile: type[PushDevice], answer: JsonObject) -> None:
        gone = profile.gone(answer)
        for device in self._active(realm, profile):
            if device.address in gone:
                device.status = DeviceStatus.REMOVED
                self._emit(device)

    def _knows(self, device: PushDevice) -> bool:
        """Not if the app has registered anew under the same name meanwhile, or taken it back."""
        return self.devices.get(device.name) is device

    def _emit(self, device: PushDevice, reason: str | None = None) -> None:
        self.events.append(DeviceEvent(device.name, device.status, reason))
        if device.status is DeviceStatus.REMOVED:
            del self.devices[device.name]
