"""The ingest task follows a relay."""

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from botocore.exceptions import EndpointConnectionError
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError
from websockets.asyncio.server import ServerConnection

from clarion.clock import now_ms
from clarion.decisions import EnvelopeDecision
from clarion.metrics import decided
from clarion.networks import WALLETCONNECT
from clarion.networks.walletconnect.acts import MAX_MARKED
from clarion.networks.walletconnect.topics import FollowedTopic, ending
from tests.ingest.conftest import Run, node_faults
from tests.ingest.walletconnect.conftest import (
    OTHER_TOPIC,
    PROJECT,
    TOPIC,
    CommandQueue,
    MakeRelaySettings,
    add_topic,
)
from tests.ingest.walletconnect.relay_server import RelayServer
from tests.networks.walletconnect.test_jwt import claims_of

if TYPE_CHECKING:
    from ingest.wiring import AwsClients

pytestmark = pytest.mark.usefixtures("tables")


class StubbornQueue:
    """SQS that is out of reach until it is told otherwise."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.reachable = False
        self.tried = 0

    def send_message_batch(self, **request: Any) -> Any:
        self.tried += 1
        if not self.reachable:
            raise EndpointConnectionError(endpoint_url="https://sqs.invalid")
        return self._client.send_message_batch(**request)


async def subscribed(relay: RelayServer, *topics: str) -> None:
    await relay.until(lambda: relay.topics >= set(topics or [TOPIC]))


async def test_a_wallets_message_becomes_a_command(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, commands: CommandQueue
) -> None:
    async with running(relay_settings(relay)) as task:
        await subscribed(relay)
        published = await relay.publish(TOPIC, "AAAA", 4008)
        (command,) = await commands.holds(1)
        await relay.until(lambda: relay.acknowledged)
        assert task.sources.connected == [relay.url]
    assert (command.topic, command.message, command.tag) == (TOPIC, "AAAA", 4008)
    assert command.published_at == published.published_at
    assert not command.replayed
    assert relay.acknowledged == [published]


async def test_the_relay_keeps_a_message_until_the_queue_has_its_command(
    relay: RelayServer,
    running: Run,
    relay_settings: MakeRelaySettings,
    commands: CommandQueue,
    sdk: "AwsClients",
) -> None:
    queue = StubbornQueue(sdk.sqs)
    async with running(relay_settings(relay), sqs=queue):
        await subscribed(relay)
        await relay.publish(TOPIC, "AAAA")
        await relay.until(lambda: queue.tried)
        await relay.show_again()
        assert not relay.acknowledged
        queue.reachable = True
        await relay.until(lambda: len(relay.acknowledged) == 2)
    assert [command.message for command in commands.read()] == ["AAAA"]


async def test_what_is_shown_again_is_acknowledged_and_sent_once(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, commands: CommandQueue
) -> None:
    async with running(relay_settings(relay)):
        await subscribed(relay)
        await relay.publish(TOPIC, "AAAA")
        await relay.until(lambda: relay.acknowledged)
        await relay.show_again()
        await relay.until(lambda: len(relay.acknowledged) == 2)
        await relay.publish(TOPIC, "AAAB")
        await relay.until(lambda: len(relay.acknowledged) == 3)
    assert [command.message for command in commands.read()] == ["AAAA", "AAAB"]


@pytest.mark.parametrize("tag", [0, 4001, 4002, 4005, 4009, 4011, 4012, 4015, 4017, 4050, 1108])
async def test_what_no_wallet_sends_is_acknowledged_and_dropped(
    tag: int, relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, commands: CommandQueue
) -> None:
    async with running(relay_settings(relay)):
        await subscribed(relay)
        await relay.publish(TOPIC, "AAAA", tag)
        await relay.publish(TOPIC, "AAAB")
        await relay.until(lambda: len(relay.acknowledged) == 2)
    assert [command.message for command in commands.read()] == ["AAAB"]


async def test_a_message_that_is_too_large_is_dropped_and_counted(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, commands: CommandQueue
) -> None:
    async with running(relay_settings(relay)) as task:
        await subscribed(relay)
        await relay.publish(TOPIC, "A" * 98_308)
        await relay.until(lambda: relay.acknowledged)
        assert not node_faults(task, WALLETCONNECT)
        assert task.counts[decided(EnvelopeDecision.MALFORMED)] == 1
    assert not commands.read()


async def test_the_longest_request_to_mark_as_read_becomes_a_command(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, commands: CommandQueue
) -> None:
    """Its ids are twice in base64: in the token, and in the envelope."""
    content = b64encode(json.dumps([str(uuid4())] * MAX_MARKED).encode()).decode()
    longest = b64encode(content.encode()).decode()
    assert len(longest) > 1 << 16
    async with running(relay_settings(relay)):
        await subscribed(relay)
        await relay.publish(TOPIC, longest)
        (command,) = await commands.holds(1)
    assert command.message == longest


async def test_what_waited_in_the_mailbox_is_told_from_what_is_new(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, commands: CommandQueue
) -> None:
    await relay.publish(TOPIC, "b2xk", ago_ms=60_000)
    async with running(relay_settings(relay)):
        await commands.holds(1)
        await relay.publish(TOPIC, "bmV3")
        await commands.holds(2)
    assert {command.message: command.replayed for command in commands.commands} == {"b2xk": True, "bmV3": False}


async def test_a_topic_that_is_added_is_subscribed_to(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, commands: CommandQueue
) -> None:
    async with running(relay_settings(relay)):
        await subscribed(relay)
        add_topic(OTHER_TOPIC, added_at=2**42)
        await subscribed(relay, TOPIC, OTHER_TOPIC)
        await relay.publish(OTHER_TOPIC, "AAAA", 4003)
        await commands.holds(1)
    assert relay.subscribed == [[TOPIC], [OTHER_TOPIC]]


async def test_topics_are_subscribed_to_in_batches(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.sources.walletconnect.topic_subscriptions.MOST_TOPICS", 2)
    added = {f"{number:064x}" for number in range(4)}
    for topic in added:
        add_topic(topic)
    async with running(relay_settings(relay)):
        await subscribed(relay, TOPIC, *added)
    assert sorted(map(len, relay.subscribed)) == [1, 2, 2]


async def test_a_topic_that_is_refused_is_asked_for_again(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings
) -> None:
    """The others are subscribed to meanwhile, and the connection stays."""
    add_topic(OTHER_TOPIC)
    relay.refused = {OTHER_TOPIC}
    async with running(relay_settings(relay)) as task:
        await subscribed(relay, TOPIC, OTHER_TOPIC)
        assert not node_faults(task, WALLETCONNECT)
    assert relay.subscribed == [[TOPIC], [OTHER_TOPIC]]
    assert len(relay.tokens) == 1


async def test_a_topic_that_has_ended_is_unsubscribed_from(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings
) -> None:
    """Once in the connection's time, also if it was added just before."""
    async with running(relay_settings(relay)):
        await subscribed(relay)
        add_topic(OTHER_TOPIC, added_at=now_ms())
        await subscribed(relay, TOPIC, OTHER_TOPIC)
        FollowedTopic(OTHER_TOPIC).update(ending(now_ms()))
        await relay.until(lambda: relay.left)
        add_topic("ef" * 32, added_at=2**42)
        await subscribed(relay, TOPIC, OTHER_TOPIC, "ef" * 32)
    assert relay.left == [OTHER_TOPIC]


async def test_each_task_passes_on_what_it_is_shown_for_another_may_not_be(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, commands: CommandQueue
) -> None:
    async with running(relay_settings(relay)), running(relay_settings(relay)):
        await relay.until(lambda: len(relay.subscribed) == 2)
        await relay.publish(TOPIC, "AAAA")
        await relay.until(lambda: len(relay.acknowledged) == 2)
    assert [command.message for command in commands.read()] == ["AAAA", "AAAA"]


async def test_a_lost_relay_is_connected_anew_as_the_same_client_with_a_new_token(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, commands: CommandQueue
) -> None:
    async with running(relay_settings(relay)) as task:
        await subscribed(relay)
        await relay.hang_up()
        await relay.until(lambda: len(relay.subscribed) == 2)
        await relay.publish(TOPIC, "AAAA")
        await commands.holds(1)
        assert node_faults(task, WALLETCONNECT) == 1
    first, second = map(claims_of, relay.tokens)
    assert (first["iss"], first["sub"]) == (second["iss"], second["sub"])
    assert first["aud"] == relay.url
    assert relay.projects == [PROJECT] * 2


async def test_what_was_not_acknowledged_comes_again_over_the_next_connection(
    relay: RelayServer,
    running: Run,
    relay_settings: MakeRelaySettings,
    commands: CommandQueue,
    sdk: "AwsClients",
) -> None:
    queue = StubbornQueue(sdk.sqs)
    async with running(relay_settings(relay), sqs=queue):
        await subscribed(relay)
        await relay.publish(TOPIC, "AAAA")
        await relay.until(lambda: queue.tried)
        await relay.hang_up()
        await relay.until(lambda: len(relay.subscribed) == 2)
        queue.reachable = True
        await relay.until(lambda: relay.acknowledged)
    assert [command.message for command in commands.read()] == ["AAAA"]


async def test_a_connection_is_renewed_in_time_without_fault(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings
) -> None:
    async with running(relay_settings(relay, renew_seconds=0.05)) as task:
        await relay.until(lambda: len(relay.subscribed) >= 3)
        assert not node_faults(task, WALLETCONNECT)


async def test_a_refused_subscription_is_tried_again(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, caplog: pytest.LogCaptureFixture
) -> None:
    relay.refusals = [{"error": {"code": 3001, "message": "Too many requests", "data": "TooManyRequests"}}]
    async with running(relay_settings(relay)) as task:
        await subscribed(relay)
        assert node_faults(task, WALLETCONNECT) == 1
    assert "it refused a request: 3001 TooManyRequests" in str([vars(record) for record in caplog.records])


async def test_a_relay_that_does_not_answer_is_left(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings
) -> None:
    relay.answers = False
    async with running(relay_settings(relay, answer_seconds=0.1)) as task:
        await relay.until(lambda: len(relay.tokens) == 2)
        assert not task.sources.connected
        assert node_faults(task, WALLETCONNECT)


@pytest.mark.parametrize("frame", ["", "{", "[]", '{"id":1}', '"' + "x" * 1_100_000 + '"'])
async def test_a_relay_that_breaks_its_protocol_is_left_and_stops_nothing(
    frame: str,
    relay: RelayServer,
    running: Run,
    relay_settings: MakeRelaySettings,
    commands: CommandQueue,
) -> None:
    async def greet(socket: ServerConnection) -> None:
        relay.greeting = None
        await socket.send(frame)

    relay.greeting = greet
    async with running(relay_settings(relay)) as task:
        await relay.until(lambda: node_faults(task, WALLETCONNECT))
        await relay.publish(TOPIC, "AAAA")
        await commands.holds(1)


async def test_topics_that_cannot_be_read_are_read_later(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    def refuse_once(since: int) -> Iterator[str]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise EndpointConnectionError(endpoint_url="https://dynamodb.invalid")
        yield TOPIC

    monkeypatch.setattr("ingest.sources.walletconnect.topic_subscriptions.topics_since", refuse_once)
    async with running(relay_settings(relay)) as task:
        await subscribed(relay)
        assert len(relay.tokens) == 1
        assert not node_faults(task, WALLETCONNECT)


async def test_all_tasks_are_one_client_of_the_relay(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings
) -> None:
    for _ in range(2):
        async with running(relay_settings(relay)):
            await subscribed(relay)
        relay.subscribed.clear()
    first, second = map(claims_of, relay.tokens)
    assert first["iss"] == second["iss"]
    assert first["sub"] != second["sub"]


async def test_a_key_that_cannot_be_read_is_read_later(
    relay: RelayServer, running: Run, relay_settings: MakeRelaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([EndpointConnectionError(endpoint_url="https://dynamodb.invalid")])

    def read_later() -> Ed25519PrivateKey:
        if error := next(answers, None):
            raise error
        return Ed25519PrivateKey.generate()

    monkeypatch.setattr("ingest.sources.walletconnect.relay.subscriber_key", read_later)
    async with running(relay_settings(relay)) as task:
        await subscribed(relay)
        assert node_faults(task, WALLETCONNECT) == 1


async def test_nothing_that_is_secret_is_logged(
    relay: RelayServer,
    running: Run,
    relay_settings: MakeRelaySettings,
    commands: CommandQueue,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with running(relay_settings(relay)):
        await subscribed(relay)
        await relay.publish(TOPIC, "c2VjcmV0")
        await commands.holds(1)
        await relay.hang_up()
        await relay.until(lambda: len(relay.tokens) == 2)
    shown = str([vars(record) for record in caplog.records])
    assert urlsplit(relay.url).netloc in shown
    assert not any(secret in shown for secret in ("c2VjcmV0", *relay.tokens))


async def test_a_relay_needs_a_project(running: Run, relay: RelayServer, relay_settings: MakeRelaySettings) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(ValidationError, match="relay_project_id"), flatten_subgroups=True):
        async with running(relay_settings(relay, options={})):
            await asyncio.sleep(60)
