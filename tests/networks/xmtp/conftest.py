import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clarion.networks.xmtp import sender_hmac_key_v2, sender_hmac_key_v3
from clarion.networks.xmtp.sender_hmac import sender_hmac
from clarion.networks.xmtp.topics import conversation_topic, group_topic
from clarion.networks.xmtp.wire_pb2 import ConversationMessage, GroupMessage, NodeEnvelope

_VECTORS = json.loads((Path(__file__).parents[2] / "data" / "xmtp.json").read_text())
_RUNS = _VECTORS["v3"]["runs"]
_REASONS = {
    "sender": "own_message",
    "should_push=false": "not_pushable",
    "should_push": "should_push",
    "no flag": "no_flag",
}
"""Ours, by the vectors' words."""

type Vector = Mapping[str, Any]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for one of these gets every vector of the group in turn."""
    for name, vectors in groups().items():
        if name in metafunc.fixturenames:
            named = list(vectors)
            metafunc.parametrize(name, [vector for _, vector in named], ids=[label for label, _ in named])


def groups() -> dict[str, Iterator[tuple[str, Vector]]]:
    v2 = _VECTORS["v2"]
    return {
        "derived_v2": ((f"{one['info']}-{number}", one) for number, one in enumerate(v2["pure"])),
        "sent_v2": ((f"{one['label']}-{one['sender']}-{one['should_push']}", one) for one in v2["keystore"]),
        "derived_v3": _derived_v3(),
        "sent_v3": (
            (f"{run['label']}-{number}-{one['what']}", one)
            for run in _RUNS
            for number, one in enumerate(run["envelopes"])
        ),
        "decision": _decisions(),
    }


def _derived_v3() -> Iterator[tuple[str, Vector]]:
    for run in _RUNS:
        for conversation in run["conversations"]:
            for client, keys in conversation["hmac_keys"].items():
                for key in keys:
                    period = key["thirty_day_periods_since_epoch"]
                    root = run["clients"][client]["root_hmac_key"]
                    vector = {"root": root, "group_id": conversation["id"], "period": period, "key": key["key"]}
                    yield f"{run['label']}-{conversation['kind']}-{client}-{period}", vector


def _decisions() -> Iterator[tuple[str, Vector]]:
    for one in [*_VECTORS["v2"]["decisions"], *_VECTORS["v3"]["edge_cases"]]:
        yield one["case"], {**one, "reason": _REASONS[one["reason"]]}
    for run in _RUNS:
        envelopes = {one["idempotency_key"]: one["envelope"] for one in run["envelopes"]}
        for number, one in enumerate(run["decisions"]):
            envelope = envelopes[one["envelope_idempotency_key"]]
            yield (
                f"{run['label']}-{number}-{one['case']}",
                {**one, "envelope": envelope, "reason": _REASONS[one["reason"]]},
            )


@pytest.fixture(scope="session")
def vectors() -> Vector:
    read: Vector = _VECTORS
    return read


ROOT = bytes(range(42))
GROUP_ID = bytes(range(16))
KEY_MATERIAL = bytes(range(32))
ADDRESS = "0x90F8bf6A479f320ead074411a4B0e7944Ea8c9C1"

type KeyAt = Callable[[int], bytes]
type Seal = Callable[..., bytes]


@pytest.fixture(scope="session", params=["v2", "v3"])
def scheme(request: pytest.FixtureRequest) -> tuple[KeyAt, Seal]:
    """A client of either scheme: its key at a period, and its envelope at a node's time under a key, flag or none."""
    return (_key_v2, _envelope_v2) if request.param == "v2" else (_key_v3, _envelope_v3)


def _key_v2(period: int) -> bytes:
    return sender_hmac_key_v2(KEY_MATERIAL, period, ADDRESS)


def _key_v3(period: int) -> bytes:
    return sender_hmac_key_v3(ROOT, GROUP_ID, period)


def _envelope_v2(timestamp_ns: int, key: bytes | None, *, should_push: bool = True) -> bytes:
    made = sender_hmac(key, b"header") if key is not None else None
    sent = ConversationMessage.V2(
        header_bytes=b"header", ciphertext=b"sealed", sender_hmac=made, should_push=should_push
    )
    message = ConversationMessage(v2=sent).SerializeToString()
    topic = conversation_topic("0102")
    return NodeEnvelope(content_topic=topic, timestamp_ns=timestamp_ns, message=message).SerializeToString()


def _envelope_v3(timestamp_ns: int, key: bytes | None, *, should_push: bool = True) -> bytes:
    made = sender_hmac(key, b"data") if key is not None else None
    sent = GroupMessage.V1(group_id=GROUP_ID, data=b"data", sender_hmac=made, should_push=should_push)
    message = GroupMessage(v1=sent).SerializeToString()
    topic = group_topic(GROUP_ID)
    return NodeEnvelope(content_topic=topic, timestamp_ns=timestamp_ns, message=message).SerializeToString()
