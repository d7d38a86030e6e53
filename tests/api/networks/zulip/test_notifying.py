"""`push/e2ee/notify`, in both profiles."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest

from clarion.channels import Channel
from clarion.decisions import Purpose, Wanted
from clarion.messages import PushMessage
from clarion.networks import Receiver, network
from tests.zulip import REMOVAL, Clock, ZulipDevice, ZulipServer, android

type Queued = Callable[[], list[PushMessage]]

VECTORS = json.loads((Path(__file__).parents[3] / "data" / "zulip.json").read_text())["notifications"]
SEALED = "c2VhbGVk"


@pytest.fixture
def iphone(server: ZulipServer) -> ZulipDevice:
    device = ZulipDevice()
    assert server.register(device).status == 200
    return device


@pytest.fixture
def phone(server: ZulipServer) -> ZulipDevice:
    device = android()
    assert server.register(device).status == 200
    return device


def content_of(message: PushMessage) -> Any:
    """Of its payload."""
    composed = network("zulip").payload(message.channel, message, Receiver("", 4096)).body
    return json.loads(composed) if isinstance(composed, bytes) else composed


def test_pushes_are_queued_and_counted(
    server: ZulipServer, iphone: ZulipDevice, phone: ZulipDevice, queued: Queued
) -> None:
    reply = server.notify(iphone.push(), phone.push(), phone.push("b3RoZXI="))
    assert reply.json == {
        "result": "success",
        "msg": "",
        "apple_successfully_sent_count": 1,
        "android_successfully_sent_count": 2,
        "delete_token_ids": [],
        "realm_push_status": {"can_push": True, "expected_end_timestamp": None},
    }
    messages = queued()
    assert sorted(message.channel for message in messages) == [Channel.APNS, Channel.FCM, Channel.FCM]
    assert {message.purpose for message in messages} == {Purpose.DIRECT}
    assert {message.client_id for message in messages} == {server.uuid.bytes}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["push_key_name"])
def test_a_shipped_payload_is_pushed_as_it_came(
    server: ZulipServer, iphone: ZulipDevice, phone: ZulipDevice, queued: Queued, vector: dict[str, Any]
) -> None:
    apns = vector["apns_push_request"] | {"token_id": iphone.token_id}
    fcm = vector["fcm_push_request"] | {"token_id": phone.token_id}
    assert server.notify(apns, fcm).status == 200
    by_channel = {message.channel: content_of(message) for message in queued()}
    assert by_channel[Channel.APNS] == apns["payload"]
    assert by_channel[Channel.FCM] == {
        "data": vector["fcm_message_data"],
        "android": {"priority": fcm["fcm_priority"]},
    }


def test_a_removal_is_pushed_in_the_background(server: ZulipServer, iphone: ZulipDevice, queued: Queued) -> None:
    push = iphone.push()
    push["http_headers"] = {"apns_priority": 5, "apns_push_type": "background"}
    push["payload"]["aps"] = REMOVAL
    assert server.notify(push).status == 200
    (message,) = queued()
    assert message.wanted is Wanted.BACKGROUND
    assert content_of(message)["aps"] == REMOVAL


def test_the_proposals_devices_are_known_by_their_ids(server: ZulipServer, queued: Queued) -> None:
    devices = [
        (server.register_account(device, account), account)
        for device, account in ((ZulipDevice(), 17), (android(), -5))
    ]
    reply = server.notify_accounts(*({"device_id": name, "encrypted_content": SEALED} for name, _ in devices))
    assert (reply.json["apple_successfully_sent_count"], reply.json["android_successfully_sent_count"]) == (1, 1)
    assert reply.json["errors"] == []
    by_channel = {message.channel: content_of(message) for message in queued()}
    iphone = by_channel[Channel.APNS]
    assert (iphone["push_account_id"], iphone["encrypted_content"]) == (17, SEALED)
    assert iphone["aps"]["alert"] == {"title": "New notification"}
    assert by_channel[Channel.FCM]["data"] == {"push_account_id": "-5", "encrypted_content": SEALED}


def test_a_push_that_is_asked_for_again_has_the_same_id(
    server: ZulipServer, iphone: ZulipDevice, clock: Clock, queued: Queued
) -> None:
    for _ in range(2):
        assert server.notify(iphone.push(), iphone.push("b3RoZXI=")).status == 200
        clock.pass_seconds(1)
    messages = queued()
    assert len(messages) == 4
    assert len({message.receipt for message in messages}) == 2
    assert len({message.envelope_id for message in messages}) == 2


class TestGone:
    """Devices that a server is to forget."""

    def test_unknown_and_ended_ones_are_named_once(
        self, server: ZulipServer, iphone: ZulipDevice, phone: ZulipDevice, queued: Queued
    ) -> None:
        (row,) = (row for row in server.rows() if row.token == iphone.token)
        server.kill(row)
        unknown = ZulipDevice()
        reply = server.notify(iphone.push(), unknown.push(), phone.push(), unknown.push())
        assert reply.json["delete_token_ids"] == [iphone.token_id, unknown.token_id]
        assert (reply.json["apple_successfully_sent_count"], reply.json["android_successfully_sent_count"]) == (0, 1)
        assert len(queued()) == 1

    def test_one_of_another_kind_is_not_there(
        self, server: ZulipServer, iphone: ZulipDevice, phone: ZulipDevice, queued: Queued
    ) -> None:
        reply = server.notify(iphone.push(), ZulipDevice(phone.token).push())
        assert reply.json["delete_token_ids"] == [phone.token_id]
        assert [message.channel for message in queued()] == [Channel.APNS]

    def test_one_that_is_revived_is_pushed_to_again(
        self, server: ZulipServer, iphone: ZulipDevice, clock: Clock, queued: Queued
    ) -> None:
        server.kill(*server.rows())
        assert server.notify(iphone.push()).json["delete_token_ids"] == [iphone.token_id]
        clock.pass_seconds(1)
        assert server.register(iphone).status == 200
        assert server.notify(iphone.push()).json["delete_token_ids"] == []
        assert len(queued()) == 1

    def test_the_proposals_have_an_error_each(self, server: ZulipServer, queued: Queued) -> None:
        names = [server.register_account(ZulipDevice(), 1), str(uuid4())]
        server.kill(*server.rows())
        reply = server.notify_accounts(*({"device_id": name, "encrypted_content": SEALED} for name in names))
        assert reply.json["errors"] == [{"device_id": name, "code": "DEVICE_NOT_REGISTERED"} for name in names]
        assert queued() == []

    def test_nobody_reaches_the_devices_of_another_server_or_realm(
        self, server: ZulipServer, known_server: Callable[..., ZulipServer], queued: Queued
    ) -> None:
        other, device = known_server(), ZulipDevice()
        name = server.register_account(device, 1)
        assert server.register(device).status == 200
        push = {"device_id": name, "encrypted_content": SEALED}
        assert other.notify_accounts(push).json["errors"][0]["device_id"] == name
        assert other.notify(device.push()).json["delete_token_ids"] == [device.token_id]
        assert queued() == []

    def test_no_shipped_device_is_reached_by_its_subscriptions_id(
        self, server: ZulipServer, iphone: ZulipDevice, queued: Queued
    ) -> None:
        (row,) = server.rows()
        reply = server.notify_accounts({"device_id": row.subscription_id, "encrypted_content": SEALED})
        assert len(reply.json["errors"]) == 1
        assert queued() == []


class TestRefusals:
    """Nothing is queued if any of it can't be sent."""

    @pytest.mark.parametrize(
        "flaw",
        [
            {"token_id": "AAAA"},
            {"token_id": "no base64"},
            {"http_headers": {"apns_priority": 7, "apns_push_type": "alert"}},
            {"http_headers": {"apns_priority": 10, "apns_push_type": "voip"}},
            {"http_headers": {"apns_priority": 10, "apns_push_type": "background"}},
            {"payload": {"push_key_id": 1, "encrypted_data": SEALED}},
            {"payload": {"push_key_id": -1, "encrypted_data": SEALED, "aps": REMOVAL}},
            {"payload": {"push_key_id": 1 << 32, "encrypted_data": SEALED, "aps": REMOVAL}},
            {"payload": {"push_key_id": 1, "encrypted_data": SEALED, "aps": {"alert": {"title": "Buy this"}}}},
            {"payload": {"push_key_id": 1, "encrypted_data": SEALED, "aps": REMOVAL, "text": "plain"}},
            {"payload": {"push_key_id": 1, "encrypted_data": f"{SEALED}\uffff", "aps": REMOVAL}},
            {"payload": {"push_key_id": 1, "encrypted_data": "A" * 4096, "aps": REMOVAL}},
        ],
    )
    def test_one_flawed_push_is_named_by_its_index(
        self, server: ZulipServer, iphone: ZulipDevice, queued: Queued, flaw: dict[str, Any]
    ) -> None:
        reply = server.notify(iphone.push(), iphone.push(**flaw))
        assert (reply.status, reply.code, reply.json["index"]) == (400, "BAD_REQUEST", 1)
        assert "plain" not in reply.json["msg"]
        assert queued() == []

    def test_a_push_that_is_too_large_for_android(self, server: ZulipServer, phone: ZulipDevice) -> None:
        assert server.notify(phone.push("A" * 4_050)).status == 200
        assert server.notify(phone.push("A" * 4_100)).json["index"] == 0

    def test_more_than_a_thousand(self, server: ZulipServer, queued: Queued) -> None:
        reply = server.notify(*[{}] * 1_001)
        assert (reply.status, reply.code) == (400, "BAD_REQUEST")
        assert queued() == []

    @pytest.mark.parametrize("changes", [{"realm_uuid": "none"}, {"notifications": []}, {"push_requests": {}}])
    def test_what_is_of_no_profile(self, server: ZulipServer, changes: dict[str, Any]) -> None:
        reply = server.notify(**changes)
        assert (reply.status, reply.code) == (400, "BAD_REQUEST")

    @pytest.mark.parametrize("content", [{}, [], "text", None])
    def test_what_is_no_request(self, server: ZulipServer, content: Any) -> None:
        reply = server.post_json("/push/e2ee/notify", content)
        assert (reply.status, reply.json["result"]) == (400, "error")

    @pytest.mark.parametrize("body", ["", "{", "[" * 100_000, '{"realm_uuid": "\\ud800"}', "\x00"])
    def test_what_is_no_json(self, server: ZulipServer, body: str) -> None:
        reply = server.send("POST", "/push/e2ee/notify", body, content_type="application/json")
        assert reply.status == 400

    def test_a_realm_that_is_not_known(self, server: ZulipServer) -> None:
        reply = server.notify(realm_uuid=str(uuid4()))
        assert (reply.status, reply.code) == (403, "MISSING_REMOTE_REALM")

    def test_more_pushes_than_the_servers_quota(
        self, known_server: Callable[..., ZulipServer], clock: Clock, queued: Queued
    ) -> None:
        server, device = known_server(pushes_a_minute=2), ZulipDevice()
        assert server.register(device).status == 200
        assert server.notify(device.push(), device.push()).status == 200
        reply = server.notify(device.push())
        assert (reply.status, reply.code) == (429, "RATE_LIMIT_HIT")
        assert int(reply.headers["Retry-After"]) == reply.json["retry-after"] > 0
        assert len(queued()) == 2
        clock.pass_seconds(60)
        assert server.notify(device.push()).status == 200

    def test_a_queue_that_takes_nothing(self, server: ZulipServer, iphone: ZulipDevice) -> None:
        """The server asks again, after whatever it has that takes it for its own trouble."""
        gone = boto3.client("sqs").get_queue_url(QueueName="apns")["QueueUrl"] + "-gone"
        settings = server.worker.settings.model_copy(update={"push_queues": {Channel.APNS: gone}})
        server.worker = replace(server.worker, settings=settings)
        reply = server.notify(iphone.push())
        assert (reply.status, reply.code) == (503, "SERVER_NOT_READY")


def test_pushes_go_to_the_queues_in_batches(server: ZulipServer, iphone: ZulipDevice, queued: Queued) -> None:
    reply = server.notify(*(iphone.push(f"{number:08}") for number in range(105)))
    assert reply.json["apple_successfully_sent_count"] == 105
    assert len({message.receipt for message in queued()}) == 105


def test_a_request_may_have_a_thousand_pushes(server: ZulipServer) -> None:
    unknown = [ZulipDevice(f"{number:064}") for number in range(1_000)]
    assert len(server.notify(*(device.push() for device in unknown)).json["delete_token_ids"]) == 1_000


def test_a_subscriptions_id_is_that_of_the_queued_push(
    server: ZulipServer, iphone: ZulipDevice, queued: Queued
) -> None:
    assert server.notify(iphone.push()).status == 200
    assert [message.subscription_id for message in queued()] == [UUID(row.subscription_id) for row in server.rows()]
