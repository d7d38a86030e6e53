"""What a real Connect client sent, as it came over the wire, answered by the rules of the reference server.

A registration without a mechanism is refused there, too; the stub that the requests were recorded from took it.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from api.networks.xmtp.codes import of_problem
from api.networks.xmtp.notifications_pb2 import RegisterInstallationResponse
from api.networks.xmtp.protocols import only_frame, protocol_of
from api.requests import not_now

CONNECT = json.loads((Path(__file__).parents[3] / "data" / "xmtp.json").read_text())["connect"]
RECORDED = [one for one in CONNECT["recorded"] if not one["proto"].startswith("grpc+")]
[MISSING, FAILED] = CONNECT["errors"]
TRAILERS_OK = bytes.fromhex("80000000" + "10") + b"grpc-status: 0\r\n"


def replayed(phone: Any, recorded: dict[str, Any]) -> Any:
    headers = {name.replace("-", "_"): value for name, value in recorded["headers"].items()}
    return phone.send(recorded["path"], bytes.fromhex(recorded["body_hex"]), **headers)


def names() -> list[str]:
    return [
        f"{number}-{one['proto'].split()[0]}-{one['path'].rpartition('/')[2]}" for number, one in enumerate(RECORDED)
    ]


def test_fifteen_of_the_recorded_requests_can_pass_api_gateway() -> None:
    assert len(CONNECT["recorded"]) - len(RECORDED) == 3
    assert len(RECORDED) == 15


@pytest.mark.parametrize("recorded", RECORDED, ids=names())
def test_a_recorded_request_is_answered(registered: Any, recorded: dict[str, Any]) -> None:
    reply, method = replayed(registered, recorded), recorded["path"].rpartition("/")[2]
    web = recorded["proto"].startswith("grpc-web")
    without_mechanism = recorded["body_hex"] in {"0a08696e7374616c6c31", "000000000a0a08696e7374616c6c31"}
    if method == "RegisterInstallation" and without_mechanism:
        assert_missing_mechanism(reply, web=web)
        return
    assert reply.status == 200, reply.body
    assert reply.headers["Content-Type"] == recorded["headers"]["content-type"]
    message = reply.body
    if web:
        assert message.endswith(TRAILERS_OK)
        flags, message = only_frame(message.removesuffix(TRAILERS_OK))
        assert flags == 0
    if method != "RegisterInstallation":
        assert message == (b"{}" if recorded["proto"].startswith("connect+json") else b"")
    elif recorded["proto"].startswith("connect+json"):
        answered = json.loads(message)
        assert answered["installationId"] == "install1"
        assert int(answered["validUntil"]) > 1_700_000_000_000
    else:
        registration = RegisterInstallationResponse.FromString(message)
        assert registration.installation_id == "install1"
        assert registration.valid_until > 1_700_000_000_000


def assert_missing_mechanism(reply: Any, *, web: bool) -> None:
    """Word for word, as the reference's client knows it."""
    if web:
        flags, trailers = only_frame(reply.body)
        assert (reply.status, flags) == (200, 0x80)
        assert trailers == b"grpc-status: 3\r\ngrpc-message: missing delivery mechanism\r\n"
    else:
        assert (reply.status, reply.json) == (MISSING["http_status"], MISSING["body"])


def test_a_failure_of_a_database_has_the_reference_s_shape_but_says_to_try_again() -> None:
    connect, failure = protocol_of("application/json"), not_now(EndpointConnectionError(endpoint_url="of a database"))
    assert connect
    refusal = connect.refusal(of_problem(failure))
    assert json.loads(refusal.body).keys() == FAILED["body"].keys()
    assert (FAILED["http_status"], FAILED["body"]["code"]) == (500, "internal")
    assert (refusal.status, json.loads(refusal.body)["code"]) == (503, "unavailable")


def test_the_requests_of_one_client_in_their_order_are_answered(phone: Any) -> None:
    """As they were recorded, by three clients one after the other, each of which deletes its installation at the end."""
    answered = [(one["path"].rpartition("/")[2], replayed(phone, one)) for one in RECORDED]
    assert [(method, reply.status) for method, reply in answered[:4]] == [
        ("RegisterInstallation", 200),
        ("Subscribe", 200),
        ("SubscribeWithMetadata", 200),
        ("DeleteInstallation", 200),
    ]
    # Without a mechanism nothing is registered, but topics are taken all the same.
    assert [(method, reply.status) for method, reply in answered[4:8]] == [
        ("RegisterInstallation", 400),
        ("Subscribe", 200),
        ("Unsubscribe", 200),
        ("DeleteInstallation", 200),
    ]
    statuses = [reply.body[reply.body.index(b"grpc-status: ") + 13 :].partition(b"\r")[0] for _, reply in answered[8:]]
    assert statuses == [b"0", b"0", b"0", b"3", b"0", b"0", b"0"]
