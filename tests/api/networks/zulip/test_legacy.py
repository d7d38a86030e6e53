"""The unencrypted protocol, where an error would cost a server more than what it asks for."""

from typing import Any

import pytest

from tests.zulip import CallingServer

SUCCESS = {"result": "success", "msg": ""}
CONTENT = {
    "user_uuid": "0f6c2b7e-4f0a-4c39-9d2b-0e7f4a1c8d55",
    "user_id": 10,
    "realm_uuid": "c1f0a9d2-5b3e-4d84-8c70-2e9b6f1d7a35",
    "apns_payload": {"alert": {"title": "Iago", "body": "5EC4E7"}, "custom": {"zulip": {}}},
    "gcm_payload": {"event": "message", "content": "5EC4E7"},
    "gcm_options": {"priority": "high"},
}


@pytest.mark.parametrize(
    ("android", "apple"), [([], []), (["an-android-phone"], ["3D" * 32, "3e" * 32]), (["the-same", "the-same"], [])]
)
def test_pushes_find_no_device_and_their_server_is_to_forget_the_tokens(
    server: CallingServer, android: list[str], apple: list[str]
) -> None:
    reply = server.post_json("/push/notify", {**CONTENT, "android_devices": android, "apple_devices": apple})
    assert reply.status == 200
    assert reply.json == {
        **SUCCESS,
        "total_android_devices": 0,
        "total_apple_devices": 0,
        "deleted_devices": {"android_devices": android, "apple_devices": apple},
        "realm": None,
    }


def test_pushes_of_a_server_that_names_no_tokens_find_no_device(server: CallingServer) -> None:
    reply = server.post_json("/push/notify", CONTENT)
    assert reply.json["deleted_devices"] == {"android_devices": [], "apple_devices": []}


@pytest.mark.parametrize("tokens", ["token", [7], ["t"] * 1_001])
def test_what_is_no_list_of_tokens_is_refused_and_not_shown(server: CallingServer, tokens: Any) -> None:
    reply = server.post_json("/push/notify", {**CONTENT, "apple_devices": tokens})
    assert (reply.status, reply.code) == (400, "BAD_REQUEST")
    assert "5EC4E7" not in str(reply.json)


def test_there_is_nothing_to_unregister(server: CallingServer) -> None:
    form = {"user_id": "10", "user_uuid": CONTENT["user_uuid"], "realm_uuid": str(server.realm)}
    assert server.post_form("/push/unregister/all", form).json == SUCCESS
