"""A simulated phone with Zulip's app, in both profiles of the protocol.

Its push token is sealed for the bouncer, so that no server learns it. The key of each account decrypts what is pushed.

    phone = Phone(TokenKind.APNS, "ab" * 32, Release(bouncer_public_key, "org.example.app"))
    account = ProposedAccount(phone, server, realm, user_id=10)     # or `ShippedAccount`
    await account.register()
    await account.refresh()                                         # as the app does each time it opens
    phone.read(push)
"""

import asyncio
import json
import os
import secrets
import time
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from hashlib import sha256
from typing import Any, override

from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox
from nacl.secret import SecretBox

from local.provider import Clock, ReceivedPush
from local.zulip_bouncer import JsonObject
from local.zulip_devices import (
    KEY_PREFIX,
    UNKNOWN_KEY,
    UNKNOWN_KEY_REASON,
    AccountDevice,
    DeviceStatus,
    KeyedDevice,
    PushDevice,
    SealedRegistration,
    TokenKind,
    ZulipRealm,
)
from local.zulip_server import ServerError, Sleep, ZulipServer, backoff


class Notice(Enum):
    """What the app shows its user of an account's notifications."""

    NOT_YET = auto()
    """They are not set up yet."""
    UPDATE_NEEDED = auto()
    """They need a newer release of the app."""


@dataclass(frozen=True)
class Release:
    """Of the app: the bouncer's public key that it came with, in base64, and what Apple knows it by.

    The proposal's registrations name no app, and so mean Zulip's own; only another one has to.
    """

    bouncer_public_key: str
    ios_app_id: str | None = None


class Phone:
    def __init__(
        self, kind: TokenKind, token: str, release: Release, *, now: Clock = time.time, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.kind = kind
        self.token = token
        self.release = release
        self.now = now
        self.sleep = sleep
        self.accounts: list[Account] = []

    async def replace_token(self, token: str) -> None:
        """As the provider does now and then: each account is registered with the new one."""
        self.token = token
        for account in self.accounts:
            await account.start_afresh()

    def seal(self, registration: JsonObject) -> SealedRegistration:
        """With the token, its kind and the app that it is for, for the bouncer alone."""
        sealed = {"token_kind": self.kind, "token": self.token, **registration}
        if self.kind is TokenKind.APNS and self.release.ios_app_id:
            sealed["ios_app_id"] = self.release.ios_app_id
        public_key = self.release.bouncer_public_key
        box = SealedBox(PublicKey(b64decode(public_key)))
        return SealedRegistration(b64encode(box.encrypt(json.dumps(sealed).encode())).decode(), public_key)

    def read(self, push: ReceivedPush) -> JsonObject | None:
        """The content, if it is for an account on this phone, and from its server."""
        payload = push.payload["message"]["data"] if self.kind is TokenKind.FCM else push.payload
        found = (account.decrypt(payload) for account in self.accounts)
        return next((content for content in found if content is not None), None)


class Account(ABC):
    """A user's account on a server, as the app keeps it."""

    def __init__(self, phone: Phone, server: ZulipServer, realm: ZulipRealm, user_id: int) -> None:
        self.phone = phone
        self.server = server
        self.realm = realm
        self.user_id = user_id
        self.notice: Notice | None = None
        self.last_acked_push_token: str | None = None
        phone.accounts.append(self)

    @property
    @abstractmethod
    def name(self) -> str:
        """By which its server knows it."""

    @abstractmethod
    def device(self) -> PushDevice:
        """What it registers, with the time sealed in it."""

    @abstractmethod
    def opened(self, payload: Mapping[str, Any]) -> bytes | None:
        """What its key decrypts; none if the payload names another key. Raises `CryptoError`."""

    @abstractmethod
    async def start_afresh(self) -> None:
        """Register under a name that the server does not know yet, if this profile has names of the app's own."""

    async def register(self) -> None:
        """Tries again while the server answers with 500; with the bouncer the server has to cope."""
        for delay in backoff():
            try:
                self.server.register(self.device())
            except ServerError:
                await self.phone.sleep(delay)
            else:
                self.last_acked_push_token = self.phone.token
                return

    async def refresh(self) -> None:
        """What the server has forgotten is registered from scratch, unless that asks for a newer release of the app."""
        status = self.server.statuses(self.realm, self.user_id).get(self.name)
        self.notice = Notice.NOT_YET if status is DeviceStatus.PENDING else None
        if status in {DeviceStatus.PENDING, DeviceStatus.ACTIVE}:
            return
        if self._last_reason in {UNKNOWN_KEY, UNKNOWN_KEY_REASON}:
            self.notice = Notice.UPDATE_NEEDED
        else:
            await self.start_afresh()

    def decrypt(self, payload: Mapping[str, Any]) -> JsonObject | None:
        """Of another server's or user's making, though with this account's key, it is dropped."""
        try:
            opened = self.opened(payload)
        except CryptoError:
            return None
        content: JsonObject = json.loads(opened) if opened is not None else {}
        mine = content.get("realm_url") == self.realm.url and content.get("user_id") == self.user_id
        return content if mine else None

    @property
    def _last_reason(self) -> str | None:
        reasons = [event.reason for event in self.server.events if event.name == self.name]
        return reasons[-1] if reasons else None


class ProposedAccount(Account):
    """As the proposal has it."""

    def __init__(self, phone: Phone, server: ZulipServer, realm: ZulipRealm, user_id: int) -> None:
        super().__init__(phone, server, realm, user_id)
        self._choose_keys()

    @property
    @override
    def name(self) -> str:
        return str(self.push_account_id)

    @override
    def device(self) -> AccountDevice:
        now = datetime.fromtimestamp(self.phone.now(), UTC)
        return AccountDevice(
            realm=self.realm,
            user_id=self.user_id,
            token_kind=self.phone.kind,
            registration=self.phone.seal({"timestamp": now.isoformat()}),
            push_account_id=self.push_account_id,
            push_public_key=bytes(self._private_key.public_key),
        )

    @override
    def opened(self, payload: Mapping[str, Any]) -> bytes | None:
        if str(payload.get("push_account_id")) != self.name:
            return None
        return SealedBox(self._private_key).decrypt(b64decode(payload["encrypted_content"]))

    @override
    async def start_afresh(self) -> None:
        self.server.unregister(self.name)
        self._choose_keys()
        await self.register()

    def _choose_keys(self) -> None:
        self.push_account_id = int.from_bytes(os.urandom(8), signed=True)
        self._private_key = PrivateKey.generate()


class ShippedAccount(Account):
    """As Zulip 12 does it: the server has given the app an id, and the token may be replaced under it."""

    def __init__(self, phone: Phone, server: ZulipServer, realm: ZulipRealm, user_id: int) -> None:
        super().__init__(phone, server, realm, user_id)
        self.device_id = server.register_client_device()
        self.push_key_id = secrets.randbits(32)
        self._key = os.urandom(SecretBox.KEY_SIZE)

    @property
    @override
    def name(self) -> str:
        return str(self.device_id)

    @override
    def device(self) -> KeyedDevice:
        return KeyedDevice(
            realm=self.realm,
            user_id=self.user_id,
            token_kind=self.phone.kind,
            registration=self.phone.seal({"timestamp": int(self.phone.now())}),
            device_id=self.device_id,
            push_key_id=self.push_key_id,
            push_key=b64encode(KEY_PREFIX + self._key).decode(),
            token_id=b64encode(sha256(self.phone.token.encode()).digest()[:8]).decode(),
        )

    @override
    def opened(self, payload: Mapping[str, Any]) -> bytes | None:
        if str(payload.get("push_key_id")) != str(self.push_key_id):
            return None
        return SecretBox(self._key).decrypt(b64decode(payload["encrypted_data"]))

    @override
    async def start_afresh(self) -> None:
        await self.register()
