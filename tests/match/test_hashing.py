"""What a stranger can have match hash: a large message of XMTP, with an HMAC that is nobody's, for a crowd."""

from uuid import uuid4

import boto3
import pytest

from clarion.messages import EnvelopeMessage, MatchMessage, SecondLookMessage
from clarion.networks import XMTP, network
from match.capacity import HASHED_BYTES
from tests.match.scene import NOW, Scene
from tests.xmtp import Inbox

AT = NOW // 1000
LARGE = 1_048_214
"""Bytes: what an XMTP node takes at most."""
CROWD = 100


@pytest.fixture
def large_pages(scene: Scene) -> Scene:
    """As in production: a page has room for the whole crowd."""
    return Scene(scene.settings.model_copy(update={"fan_out_page": 250}), scene.clients)


def show_large(scene: Scene, raw: bytes) -> EnvelopeMessage:
    """What ingest makes of an envelope that is too large for a queue."""
    message = scene.show(XMTP, raw)
    boto3.client("s3").put_object(Bucket="oversize", Key=str(message.receipt), Body=raw)
    return message.model_copy(update={"raw": None, "location": str(message.receipt)})


@pytest.mark.parametrize("named", [False, True], ids=["by the index", "by a second look"])
def test_one_invocation_hashes_no_more_of_a_large_message_than_it_has_time_for(large_pages: Scene, named: bool) -> None:
    scene, group = large_pages, uuid4().bytes
    rule, raw = Inbox(b"alix", group).rule(AT), Inbox(b"bo", group).message(AT, bytes(LARGE))
    crowd = {scene.subscribe_to(XMTP, [rule]).subscription_id for _ in range(CROWD)}
    xmtp = network(XMTP)
    hashed = xmtp.bytes_per_rule(xmtp.decode(raw))
    message: MatchMessage = show_large(scene, raw)
    if named:
        message = SecondLookMessage(**message.observation, look_id=uuid4(), subscription_ids=tuple(sorted(crowd)))

    woken: list[str] = []
    waiting = [message]
    while waiting:
        assert scene.take(waiting.pop()) == set()
        waiting += scene.again()
        pushes = scene.pushes()
        assert 0 < len(pushes) * hashed <= HASHED_BYTES
        woken += [str(push.subscription_id) for push in pushes]

    assert CROWD * hashed > HASHED_BYTES, "the crowd is too small to show anything"
    assert sorted(woken) == sorted(crowd)


def test_a_batch_of_large_messages_hashes_no_more_than_one(large_pages: Scene) -> None:
    scene, hashed = large_pages, 3 * LARGE
    messages: list[MatchMessage] = []
    for _ in range(3):
        group = uuid4().bytes
        for _ in range(40):
            scene.subscribe_to(XMTP, [Inbox(b"alix", group).rule(AT)])
        messages.append(show_large(scene, Inbox(b"bo", group).message(AT, bytes(LARGE))))

    assert scene.take(*messages) == set()
    first = len(scene.pushes())
    for message in scene.again():
        assert scene.take(message) == set()

    assert first * hashed <= HASHED_BYTES
    assert first + len(scene.pushes()) == 120
