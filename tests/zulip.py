"""A Zulip server as its push bouncer sees it, and devices whose registrations it hands over."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID, uuid4

from nacl.public import PublicKey, SealedBox

from api.networks.zulip.router import answer
from api.networks.zulip.settings import ZulipSettings
from api.networks.zulip.worker import ZulipWorker
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.endings import Death, declare_dead
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.needs import BOUNCER_SECRET, ROOT
from clarion.networks.zulip.registration import IOS_APP_ID, token_id_of
from clarion.networks.zulip.servers import Realm, RealmState, Server, ServerState, key_hash
from clarion.tables import Subscription
from local.zulip_server import new_org_key

KEYS = BouncerKeys().rotated(1_700_000_000).rotated(1_700_000_000)
PUBLIC, OTHER_PUBLIC = KEYS.opening
ALERT = {"mutable-content": 1, "alert": {"title": "New notification"}, "sound": "default"}
REMOVAL = {"mutable-content": 1}


@dataclass
class Clock:
    """In UNIX milliseconds."""

    now: int = field(default_factory=now_ms)

    def __call__(self) -> int:
        return self.now

    @property
    def seconds(self) -> int:
        return self.now // 1000

    def pass_seconds(self, seconds: int) -> None:
        self.now += seconds * 1000


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    json: Any

    @property
    def code(self) -> str:
        return str(self.json["code"])


def seal(registration: object, public_key: str = PUBLIC) -> str:
    content = registration if isinstance(registration, bytes) else json.dumps(registration).encode()
    return b64encode(SealedBox(PublicKey(b64decode(public_key))).encrypt(content)).decode()


@dataclass(frozen=True)
class ZulipDevice:
    """A device of one account, as its app seals it."""

    token: str = field(repr=False, default_factory=lambda: uuid4().hex * 2)
    token_kind: str = "apns"
    ios_app_id: str | None = IOS_APP_ID

    @property
    def token_id(self) -> str:
        return token_id_of(self.token)

    def registration(self, sealed_at: int, **changes: Any) -> dict[str, Any]:
        plain = {"token": self.token, "token_kind": self.token_kind, "ios_app_id": self.ios_app_id}
        return {**plain, "timestamp": sealed_at, **changes}

    def push(self, content: str = "c2VhbGVk", **changes: Any) -> dict[str, Any]:
        payload = {"push_key_id": 2408, "encrypted_data": content}
        if self.token_kind == "fcm":
            return {"token_id": self.token_id, "fcm_priority": "high", "payload": payload} | changes
        headers = {"apns_priority": 10, "apns_push_type": "alert"}
        return {"token_id": self.token_id, "http_headers": headers, "payload": {**payload, "aps": ALERT}} | changes


def android() -> ZulipDevice:
    return ZulipDevice(uuid4().hex, "fcm", None)


@dataclass
class CallingServer:
    """A server of one realm, at a network address of its own: sends requests to the router, as API Gateway would."""

    worker: ZulipWorker
    clock: Clock
    uuid: UUID = field(default_factory=uuid4)
    key: str = field(default_factory=new_org_key, repr=False)
    realm: UUID = field(default_factory=uuid4)
    address: str = field(default_factory=lambda: str(uuid4()))

    def send(self, method: str, path: str, body: str = "", *, query: str = "", **headers: str) -> Reply:
        """Names of headers with `_` for `-`. The credentials are the server's, if none are given."""
        credentials = b64encode(f"{self.uuid}:{self.key}".encode()).decode()
        sent = {"authorization": f"Basic {credentials}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        event: dict[str, Any] = {
            "version": "2.0",
            "rawPath": ROOT + path,
            "headers": sent,
            "requestContext": {
                "http": {"method": method, "path": ROOT + path, "sourceIp": self.address},
                "requestId": "r",
                "stage": "$default",
            },
            "body": b64encode(body.encode()).decode(),
            "isBase64Encoded": True,
        }
        if query:
            event["queryStringParameters"] = dict(parse_qsl(query, keep_blank_values=True))
        found = answer(event, self.worker)
        assert found["headers"]["Content-Type"] == "application/json"
        return Reply(found["statusCode"], found["headers"], json.loads(found["body"]))

    def post_form(self, path: str, form: Mapping[str, Any], **headers: str) -> Reply:
        given = {"content_type": "application/x-www-form-urlencoded"} | headers
        return self.send("POST", path, urlencode(form), **given)

    def post_json(self, path: str, content: object, **headers: str) -> Reply:
        return self.send("POST", path, json.dumps(content), content_type="application/json", **headers)

    def register(
        self, device: ZulipDevice, *, sealed_at: int | None = None, public_key: str = PUBLIC, **changes: Any
    ) -> Reply:
        """In the shipped profile, unless another identity is given instead of `token_id`; None leaves a field out."""
        registration = device.registration(self.clock.seconds if sealed_at is None else sealed_at)
        form = {
            "realm_uuid": str(self.realm),
            "token_id": device.token_id,
            "encrypted_push_registration": seal(registration, public_key),
            "bouncer_public_key": public_key,
        } | changes
        return self.post_form("/push/e2ee/register", {name: value for name, value in form.items() if value is not None})

    def register_account(self, device: ZulipDevice, account: int, **changes: Any) -> str:
        """In the proposal's profile; returns the device's id."""
        reply = self.register(device, token_id=None, push_account_id=account, **changes)
        assert reply.status == 200
        return str(reply.json["device_id"])

    def notify(self, *pushes: Mapping[str, Any], **changes: Any) -> Reply:
        content = {"realm_uuid": str(self.realm), "push_requests": pushes} | changes
        return self.post_json("/push/e2ee/notify", content)

    def notify_accounts(self, *pushes: Mapping[str, Any]) -> Reply:
        return self.post_json("/push/e2ee/notify", {"realm_uuid": str(self.realm), "notifications": pushes})

    def expired(self, **query: str) -> Reply:
        return self.send("GET", "/push/e2ee/expired", query=urlencode({"realm_uuid": str(self.realm), **query}))

    def rows(self) -> list[Subscription]:
        """All its devices."""
        ids = [row.subscription_id for row in Subscription.by_client.query(self.uuid.bytes)]
        return list(Subscription.batch_get(ids, consistent_read=True))

    def admit(self, **columns: Any) -> None:
        """As the operator does; arguments are columns of its row."""
        row: dict[str, Any] = {
            "state": ServerState.ACTIVE.value,
            "key_hash": key_hash(self.key),
            "created_at": 0,
        } | columns
        Server(str(self.uuid), **row).save()
        state = RealmState.ACTIVE.value
        Realm(str(self.realm), server_uuid=str(self.uuid), state=state, host="", created_at=0).save()

    def kill(self, row: Subscription) -> None:
        """The provider says that its token is dead."""
        assert declare_dead(self.worker.connection, row, Death("Unregistered", at=self.clock.now))


def settings_of(prefix: str, late_events: str, push_queues: Mapping[Channel, str]) -> ZulipSettings:
    """Of a router whose deployment has two iPhone apps, and one for Android; its keys are in a secret of their own name."""
    return ZulipSettings(
        network="zulip",
        table_prefix=prefix,
        events_stream="lake",
        late_events_queue_url=late_events,
        secrets=json.dumps({BOUNCER_SECRET: BOUNCER_SECRET}),
        push_queues=json.dumps({channel: push_queues[channel] for channel in (Channel.APNS, Channel.FCM)}),
        apns_apps=json.dumps({IOS_APP_ID: "first", "org.example.Chat": "tablet"}),
        fcm_app="first",
    )
