"""`push/e2ee/notify`, in both profiles."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest

from api import quotas, requests
from api.quotas import Rate
from api.token_quota import quota_of
from clarion.channels import Channel
from clarion.decisions import Purpose, Wanted
from clarion.messages import PushMessage
from clarion.networks import Receiver, network
from tests.zulip import REMOVAL, CallingServer, Clock, ZulipDevice, android

type Queued = Callable[[], list[PushMessage]]

VECTORS = json.loads((Path(__file__).parents[3] / "data" / "zulip.json").read_text())["notifications"]
SEALED = "c2VhbGVk"


def new_content() -> str:
    return b64encode(uuid4().bytes).decode()


@pytest.fixture
def iphone(server: CallingServer) -> ZulipDevice:
    device = ZulipDevice()
    assert server.register(device).status == 200
    return device


@pytest.fixture
def phone(server: CallingServer) -> ZulipDevice:
    device = android()
    assert server.register(device).status == 200
    return device


def content_of(message: PushMessage) -> Any:
    """Of its payload."""
    composed = network("zulip").payload(message.channel, message, Receiver("", 4096)).body
    return json.loads(composed) if isinstance(composed, bytes) else composed


def test_pushes_are_queued_and_counted(
    server: CallingServer, iphone: ZulipDevice, phone: ZulipDevice, queued: Queued
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
    server: CallingServer, iphone: ZulipDevice, phone: ZulipDevice, queued: Queued, vector: dict[str, Any]
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


def test_a_removal_is_pushed_in_the_background(server: CallingServer, iphone: ZulipDevice, queued: Queued) -> None:
    push = iphone.push()
    push["http_headers"] = {"apns_priority": 5, "apns_push_type": "background"}
    push["payload"]["aps"] = REMOVAL
    assert server.notify(push).status == 200
    (message,) = queued()
    assert message.wanted is Wanted.BACKGROUND
    assert content_of(message)["aps"] == REMOVAL


def test_the_proposals_devices_are_known_by_their_ids(server: CallingServer, queued: Queued) -> None:
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
    server: CallingServer, iphone: ZulipDevice, clock: Clock, queued: Queued
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
        self, server: CallingServer, iphone: ZulipDevice, phone: ZulipDevice, queued: Queued
    ) -> None:
        (row,) = (row for row in server.rows() if row.token == iphone.token)
        server.kill(row)
        unknown = ZulipDevice()
        reply = server.notify(iphone.push(), unknown.push(), phone.push(), unknown.push())
        assert reply.json["delete_token_ids"] == [iphone.token_id, unknown.token_id]
        assert (reply.json["apple_successfully_sent_count"], reply.json["android_successfully_sent_count"]) == (0, 1)
        assert len(queued()) == 1

    def test_one_of_another_kind_is_not_there(
        self, server: CallingServer, iphone: ZulipDevice, phone: ZulipDevice, queued: Queued
    ) -> None:
        reply = server.notify(iphone.push(), ZulipDevice(phone.token).push())
        assert reply.json["delete_token_ids"] == [phone.token_id]
        assert [message.channel for message in queued()] == [Channel.APNS]

    def test_one_that_is_revived_is_pushed_to_again(
        self, server: CallingServer, iphone: ZulipDevice, clock: Clock, queued: Queued
    ) -> None:
        server.kill(*server.rows())
        assert server.notify(iphone.push()).json["delete_token_ids"] == [iphone.token_id]
        clock.pass_seconds(1)
        assert server.register(iphone).status == 200
        assert server.notify(iphone.push()).json["delete_token_ids"] == []
        assert len(queued()) == 1

    def test_the_proposals_have_an_error_each(self, server: CallingServer, queued: Queued) -> None:
        names = [server.register_account(ZulipDevice(), 1), str(uuid4())]
        server.kill(*server.rows())
        reply = server.notify_accounts(*({"device_id": name, "encrypted_content": SEALED} for name in names))
        assert reply.json["errors"] == [{"device_id": name, "code": "DEVICE_NOT_REGISTERED"} for name in names]
        assert queued() == []

    def test_nobody_reaches_the_devices_of_another_server_or_realm(
        self, server: CallingServer, known_server: Callable[..., CallingServer], queued: Queued
    ) -> None:
        other, device = known_server(), ZulipDevice()
        name = server.register_account(device, 1)
        assert server.register(device).status == 200
        push = {"device_id": name, "encrypted_content": SEALED}
        assert other.notify_accounts(push).json["errors"][0]["device_id"] == name
        assert other.notify(device.push()).json["delete_token_ids"] == [device.token_id]
        assert queued() == []

    def test_no_shipped_device_is_reached_by_its_subscriptions_id(
        self, server: CallingServer, iphone: ZulipDevice, queued: Queued
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
        self, server: CallingServer, iphone: ZulipDevice, queued: Queued, flaw: dict[str, Any]
    ) -> None:
        reply = server.notify(iphone.push(), iphone.push(**flaw))
        assert (reply.status, reply.code, reply.json["index"]) == (400, "BAD_REQUEST", 1)
        assert "plain" not in reply.json["msg"]
        assert queued() == []

    @pytest.mark.parametrize(
        ("flaw", "text"),
        [
            ({"fcm_priority": "urgent"}, "push_requests[0].fcm.fcm_priority: Input should be 'high' or 'normal'"),
            ({"payload": {"push_key_id": 1}}, "push_requests[0].fcm.payload.encrypted_data: Field required"),
            (
                {"payload": {"push_key_id": 1 << 32, "encrypted_data": SEALED}},
                "push_requests[0].fcm.payload.push_key_id: Input should be less than 4294967296",
            ),
            (
                {"payload": {"push_key_id": 1, "encrypted_data": SEALED, "5EC4E7": 1}},
                "push_requests[0].fcm.payload: Extra inputs are not permitted",
            ),
            (
                {"payload": {"push_key_id": 1, "encrypted_data": "A" * 4_100}},
                "push_requests[0]: its payload would have more than 4096 bytes",
            ),
            ({"token_id": "abc"}, "push_requests[0].fcm.token_id: must be 8 bytes in base64"),
            ({"token_id": "AAAA"}, "push_requests[0].fcm.token_id: must be 8 bytes in base64"),
            ({"http_headers": {}}, "push_requests[0].apns.http_headers.apns_priority: Field required"),
        ],
    )
    def test_a_flaw_is_named_with_its_member_in_the_form_of_its_kind(
        self, server: CallingServer, phone: ZulipDevice, flaw: dict[str, Any], text: str
    ) -> None:
        assert server.notify(phone.push(**flaw)).json["msg"] == text

    def test_a_flaw_of_a_proposed_push_is_named_too(self, server: CallingServer) -> None:
        good = {"device_id": str(uuid4()), "encrypted_content": SEALED}
        assert server.notify_accounts({}).json["msg"] == "notifications[0].device_id: Field required"
        reply = server.notify_accounts(good, {**good, "encrypted_content": "A" * 4_100})
        assert reply.json["msg"] == "notifications[1]: its payload would have more than 4096 bytes"

    def test_a_push_that_is_too_large_for_android(self, server: CallingServer, phone: ZulipDevice) -> None:
        assert server.notify(phone.push("A" * 4_050)).status == 200
        assert server.notify(phone.push("A" * 4_100)).json["index"] == 0

    def test_more_than_a_thousand(self, server: CallingServer, queued: Queued) -> None:
        reply = server.notify(*[{}] * 1_001)
        assert (reply.status, reply.code) == (400, "BAD_REQUEST")
        assert queued() == []

    @pytest.mark.parametrize("changes", [{"realm_uuid": "none"}, {"notifications": []}, {"push_requests": {}}])
    def test_what_is_of_no_profile(self, server: CallingServer, changes: dict[str, Any]) -> None:
        reply = server.notify(**changes)
        assert (reply.status, reply.code) == (400, "BAD_REQUEST")

    @pytest.mark.parametrize("content", [{}, [], "text", None])
    def test_what_is_no_request(self, server: CallingServer, content: Any) -> None:
        reply = server.post_json("/push/e2ee/notify", content)
        assert (reply.status, reply.json["result"]) == (400, "error")

    @pytest.mark.parametrize("body", ["", "{", "[" * 100_000, '{"realm_uuid": "\\ud800"}', "\x00"])
    def test_what_is_no_json(self, server: CallingServer, body: str) -> None:
        reply = server.send("POST", "/push/e2ee/notify", body, content_type="application/json")
        assert reply.status == 400

    def test_a_realm_that_is_not_known(self, server: CallingServer) -> None:
        reply = server.notify(realm_uuid=str(uuid4()))
        assert (reply.status, reply.code) == (403, "MISSING_REMOTE_REALM")

    def test_more_pushes_than_the_servers_quota(
        self, known_server: Callable[..., CallingServer], clock: Clock, queued: Queued
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

    def test_a_queue_that_takes_nothing(self, server: CallingServer, iphone: ZulipDevice) -> None:
        """The server asks again, after whatever it has that takes it for its own trouble."""
        gone = boto3.client("sqs").get_queue_url(QueueName="apns")["QueueUrl"] + "-gone"
        settings = server.worker.settings.model_copy(update={"push_queues": {Channel.APNS: gone}})
        server.worker = replace(server.worker, settings=settings)
        reply = server.notify(iphone.push())
        assert (reply.status, reply.code) == (503, "SERVER_NOT_READY")


class TestAQueueThatDoesNotTakeAll:
    """Zulip 12 would not send a message's pushes again."""

    @pytest.fixture
    def losses(self, server: CallingServer) -> Iterator[list[int]]:
        """How many entries are lost on the way of each request from now on; then none."""
        left = list[int]()
        events = server.worker.sqs.meta.events

        def lose(params: dict[str, Any], **_: Any) -> None:
            params["Entries"] = params["Entries"][left.pop(0) if left else 0 :]

        events.register("provide-client-params.sqs.SendMessageBatch", lose)
        yield left
        events.unregister("provide-client-params.sqs.SendMessageBatch", lose)

    def test_what_is_refused_is_sent_once_more(
        self, server: CallingServer, iphone: ZulipDevice, queued: Queued, losses: list[int]
    ) -> None:
        losses += [1]
        reply = server.notify(*(iphone.push(new_content()) for _ in range(3)))
        assert (reply.status, reply.json["apple_successfully_sent_count"]) == (200, 3)
        messages = queued()
        assert (len(messages), len({message.receipt for message in messages})) == (3, 3)

    def test_what_is_refused_twice_is_an_error(
        self, server: CallingServer, iphone: ZulipDevice, queued: Queued, losses: list[int]
    ) -> None:
        losses += [2, 1]
        reply = server.notify(*(iphone.push(new_content()) for _ in range(3)))
        assert (reply.status, reply.code) == (503, "SERVER_NOT_READY")
        assert len(queued()) == 2

    def test_nothing_is_queued_that_api_gateway_does_not_wait_for(
        self, server: CallingServer, iphone: ZulipDevice, queued: Queued, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(requests, "REQUEST_SECONDS", 0)
        reply = server.notify(iphone.push(), ZulipDevice().push())
        assert (reply.status, reply.code) == (503, "SERVER_NOT_READY")
        assert queued() == []
        assert server.notify(ZulipDevice().push()).status == 200, "there is nothing to queue"


def test_pushes_go_to_the_queues_in_batches(new_server: Callable[..., CallingServer], queued: Queued) -> None:
    server, iphone = new_server(pushes_per_token_per_minute=10_000), ZulipDevice()
    server.admit()
    assert server.register(iphone).status == 200
    reply = server.notify(*(iphone.push(f"{number:08}") for number in range(105)))
    assert reply.json["apple_successfully_sent_count"] == 105
    assert len({message.receipt for message in queued()}) == 105


def test_a_request_may_have_a_thousand_pushes(server: CallingServer) -> None:
    unknown = [ZulipDevice(f"{number:064}") for number in range(1_000)]
    assert len(server.notify(*(device.push() for device in unknown)).json["delete_token_ids"]) == 1_000


def test_a_subscriptions_id_is_that_of_the_queued_push(
    server: CallingServer, iphone: ZulipDevice, queued: Queued
) -> None:
    assert server.notify(iphone.push()).status == 200
    assert [message.subscription_id for message in queued()] == [UUID(row.subscription_id) for row in server.rows()]


class TestATokenGetsSoManyPushesAMinute:
    @pytest.fixture
    def server(self, new_server: Callable[..., CallingServer]) -> CallingServer:
        server = new_server(pushes_per_token_per_minute=20)
        server.admit()
        return server

    def test_beyond_them_nothing_is_queued_and_the_server_keeps_the_device(
        self, server: CallingServer, iphone: ZulipDevice, phone: ZulipDevice, queued: Queued
    ) -> None:
        for _ in range(2):
            assert server.notify(*(iphone.push(new_content()) for _ in range(10))).status == 200
        reply = server.notify(*(iphone.push(new_content()) for _ in range(10)), phone.push())
        assert (reply.json["apple_successfully_sent_count"], reply.json["android_successfully_sent_count"]) == (0, 1)
        assert reply.json["delete_token_ids"] == []
        assert len(queued()) == 21

    def test_a_server_of_the_proposal_is_told_of_no_error(
        self, server: CallingServer, queued: Queued, capsys: pytest.CaptureFixture[str]
    ) -> None:
        name = server.register_account(ZulipDevice(), 17)
        pushes = [{"device_id": name, "encrypted_content": new_content()} for _ in range(23)]
        capsys.readouterr()
        reply = server.notify_accounts(*pushes)
        assert (reply.status, reply.json["errors"], reply.json["apple_successfully_sent_count"]) == (200, [], 0)
        assert queued() == []
        assert json.loads(capsys.readouterr().out)["pushes_beyond_limit"] == [23]

    def test_whoever_sends_them_and_in_whatever_realm(
        self, server: CallingServer, iphone: ZulipDevice, known_server: Callable[..., CallingServer], clock: Clock
    ) -> None:
        settings = server.worker.settings
        other = known_server()
        other.worker = replace(other.worker, settings=settings)
        account = server.register_account(iphone, 17)
        assert other.register(iphone).status == 200
        quotas.require(quota_of(Channel.APNS, iphone.token.upper()), Rate(20, 60), clock.now, "", 15)
        assert other.notify(*(iphone.push(new_content()) for _ in range(5))).json["apple_successfully_sent_count"] == 5
        push = {"device_id": account, "encrypted_content": new_content()}
        sent = [server.notify_accounts(push).json["apple_successfully_sent_count"] for _ in range(5)]
        assert sent == [1, 1, 1, 1, 0], "more than is left, and the instance's own share"

    def test_the_next_minute_has_as_many(self, server: CallingServer, iphone: ZulipDevice, clock: Clock) -> None:
        pushes = [iphone.push(new_content()) for _ in range(20)]
        sent = [server.notify(*pushes).json["apple_successfully_sent_count"] for _ in range(2)]
        clock.pass_seconds(60)
        assert [*sent, server.notify(*pushes).json["apple_successfully_sent_count"]] == [20, 0, 20]

    def test_what_is_refused_as_malformed_uses_up_none(self, server: CallingServer, iphone: ZulipDevice) -> None:
        bad = iphone.push(http_headers={"apns_priority": 10, "apns_push_type": "background"})
        for _ in range(3):
            assert server.notify(*(iphone.push(new_content()) for _ in range(20)), bad).status == 400
        sent = server.notify(*(iphone.push(new_content()) for _ in range(20)))
        assert sent.json["apple_successfully_sent_count"] == 20


def test_a_server_may_ask_as_often_as_it_may_push_whatever_it_asks(known_server: Callable[..., CallingServer]) -> None:
    server = known_server(pushes_a_minute=3)
    asked = [server.notify(), server.notify(realm_uuid=str(uuid4())), server.post_json("/push/e2ee/notify", [])]
    assert [reply.status for reply in asked] == [200, 403, 400]
    assert server.notify().code == "RATE_LIMIT_HIT"
