"""What a Zulip server keeps of its users' devices, in the two profiles of the protocol.

`AccountDevice` is that of the proposal (ZAP 2): the app's public key encrypts, and the bouncer gives the device an id.
`KeyedDevice` is that of Zulip 12: a symmetric key encrypts, and a hash of the token stands for it.
"""

import json
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import ClassVar, override
from uuid import UUID

from nacl.public import PublicKey, SealedBox
from nacl.secret import SecretBox

from local.zulip_bouncer import JsonObject

UNKNOWN_KEY = "INVALID_BOUNCER_PUBLIC_KEY"
EXPIRED = "REQUEST_EXPIRED"
UNKNOWN_KEY_REASON = "invalid bouncer_public_key"
"""What the proposal has a server tell its client instead of the bouncer's code."""
KEY_PREFIX = b"\x31"
"""Says that what follows is a key of XSalsa20 and Poly1305."""

_ALERT = {"mutable-content": 1, "alert": {"title": "New notification"}, "sound": "default"}
_NO_ALERT = {"mutable-content": 1}


class TokenKind(StrEnum):
    APNS = "apns"
    FCM = "fcm"


class DeviceStatus(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    FAILED = "failed"
    REMOVED = "removed"


@dataclass(frozen=True)
class ZulipRealm:
    """An organization; `owner_secret` proves to the bouncer that the server's operator has it."""

    uuid: UUID
    host: str
    name: str
    owner_secret: str = field(repr=False)

    @property
    def url(self) -> str:
        return f"https://{self.host}"

    def as_json(self) -> JsonObject:
        """As a server reports it to its bouncer."""
        return {
            "id": 1 + self.uuid.int % 1000,
            "uuid": str(self.uuid),
            "uuid_owner_secret": self.owner_secret,
            "host": self.host,
            "url": self.url,
            "name": self.name,
            "org_type": 0,
            "date_created": 1_700_000_000.0,
            "deactivated": False,
            "is_system_bot_realm": False,
            "authentication_methods": {},
        }


@dataclass(frozen=True)
class LegacyToken:
    """What an app that does not encrypt has registered: the token itself, which the server keeps for a user."""

    realm: ZulipRealm
    kind: TokenKind
    token: str = field(repr=False)


@dataclass(frozen=True)
class SealedRegistration:
    """What only the bouncer can read, and the key by which it can."""

    encrypted_push_registration: str = field(repr=False)
    bouncer_public_key: str


@dataclass(kw_only=True)
class PushDevice(ABC):
    """A user's account on one device, as its app registers it. `registration` is none once the bouncer has it."""

    pushes: ClassVar[str]
    """The name of the list of pushes in a request to notify."""

    realm: ZulipRealm
    user_id: int
    token_kind: TokenKind
    registration: SealedRegistration | None
    status: DeviceStatus = DeviceStatus.PENDING

    @property
    @abstractmethod
    def name(self) -> str:
        """By which the app knows it."""

    @property
    @abstractmethod
    def address(self) -> str | None:
        """By which the bouncer knows it."""

    @property
    @abstractmethod
    def identity(self) -> dict[str, str]:
        """What its registration with the bouncer says beside what all of them do."""

    @property
    def request(self) -> dict[str, str]:
        """The fields of its registration with the bouncer."""
        sealed = asdict(self.registration) if self.registration else {}
        return {"realm_uuid": str(self.realm.uuid), **self.identity, **sealed}

    def confirm(self, answer: JsonObject) -> None:  # noqa: ARG002 - one profile has nothing to read in it
        self.registration, self.status = None, DeviceStatus.ACTIVE

    @abstractmethod
    def failure(self, code: str) -> tuple[DeviceStatus, str | None]:
        """What becomes of a device that the bouncer has refused, and the reason that its client is given."""

    @abstractmethod
    def push(self, content: JsonObject) -> JsonObject:
        """An entry of the list of pushes."""

    @staticmethod
    @abstractmethod
    def gone(answer: JsonObject) -> set[str]:
        """The addresses that have expired, by the answer to notify or a page of the expired."""

    def plaintext(self, content: JsonObject) -> bytes:
        account = {"realm_url": self.realm.url, "realm_name": self.realm.name, "user_id": self.user_id}
        return json.dumps(account | content).encode()


@dataclass(kw_only=True)
class AccountDevice(PushDevice):
    """The app has chosen `push_account_id`, 64 bits. The bouncer alone knows with which token it goes."""

    pushes = "notifications"

    push_account_id: int
    push_public_key: bytes
    bouncer_device_id: str | None = None

    @property
    @override
    def name(self) -> str:
        return str(self.push_account_id)

    @property
    @override
    def address(self) -> str | None:
        return self.bouncer_device_id

    @property
    @override
    def identity(self) -> dict[str, str]:
        return {"push_account_id": str(self.push_account_id)}

    @override
    def confirm(self, answer: JsonObject) -> None:
        super().confirm(answer)
        self.bouncer_device_id = answer["device_id"]

    @override
    def failure(self, code: str) -> tuple[DeviceStatus, str | None]:
        return DeviceStatus.REMOVED, UNKNOWN_KEY_REASON if code == UNKNOWN_KEY else None

    @override
    def push(self, content: JsonObject) -> JsonObject:
        encrypted = SealedBox(PublicKey(self.push_public_key)).encrypt(self.plaintext(content))
        return {"device_id": self.bouncer_device_id, "encrypted_content": b64encode(encrypted).decode()}

    @staticmethod
    @override
    def gone(answer: JsonObject) -> set[str]:
        return {error["device_id"] for error in answer["errors"]}


@dataclass(kw_only=True)
class KeyedDevice(PushDevice):
    """The server has given the app `device_id`. `push_key` is the app's, in base64; raises `ValueError` if it is none."""

    pushes = "push_requests"

    device_id: int
    push_key_id: int
    push_key: str = field(repr=False)
    token_id: str

    def __post_init__(self) -> None:
        key = b64decode(self.push_key, validate=True)
        if not key.startswith(KEY_PREFIX):
            raise ValueError("Invalid `push_key`")
        self._box = SecretBox(key.removeprefix(KEY_PREFIX))

    @property
    @override
    def name(self) -> str:
        return str(self.device_id)

    @property
    @override
    def address(self) -> str | None:
        return self.token_id

    @property
    @override
    def identity(self) -> dict[str, str]:
        return {"token_id": self.token_id}

    @override
    def failure(self, code: str) -> tuple[DeviceStatus, str | None]:
        return DeviceStatus.FAILED, code

    @override
    def push(self, content: JsonObject) -> JsonObject:
        """A removal of notifications makes no sound."""
        silent = content["type"] == "remove"
        encrypted = b64encode(self._box.encrypt(self.plaintext(content))).decode()
        payload = {"push_key_id": self.push_key_id, "encrypted_data": encrypted}
        if self.token_kind is TokenKind.FCM:
            return {"token_id": self.token_id, "fcm_priority": "normal" if silent else "high", "payload": payload}
        headers = {"apns_priority": 5 if silent else 10, "apns_push_type": "background" if silent else "alert"}
        aps = _NO_ALERT if silent else _ALERT
        return {"token_id": self.token_id, "http_headers": headers, "payload": payload | {"aps": aps}}

    @staticmethod
    @override
    def gone(answer: JsonObject) -> set[str]:
        return set(answer["delete_token_ids"])
