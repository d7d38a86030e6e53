"""The source and the publisher, by the relay of the local system."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from clarion.clock import now_ms
from clarion.networks.walletconnect.relay import Publication, RelayClient, publication
from clarion.networks.walletconnect.relay_publisher import PublishOutcome, RelayPublisher
from clarion.networks.walletconnect.topics import FollowedTopic, ending
from clarion.providers.transport import Timeouts, Transport
from local.tls import Localhost
from local.walletconnect.relay import Relay
from tests.ingest.conftest import Run
from tests.ingest.walletconnect.conftest import OTHER_TOPIC, PROJECT, TOPIC, CommandQueue, MakeRelaySettings, add_topic

pytestmark = pytest.mark.usefixtures("tables")

SUBSCRIBE = publication(TOPIC, "c3Vic2NyaWJl", "notify_subscription")
RECEIPT = publication(OTHER_TOPIC, "cmVjZWlwdA==", "notify_message_response")
MESSAGE = publication(TOPIC, "bWVzc2FnZQ==", "notify_message")


@pytest.fixture
async def relay(localhost: Localhost) -> AsyncIterator[Relay]:
    async with Relay(localhost) as relay:
        yield relay


@pytest.fixture
def transport(localhost: Localhost) -> Iterator[Transport]:
    transport = Transport(str(localhost.ca_file), Timeouts(connect=20, answer=20))
    yield transport
    transport.close()


@pytest.fixture
def publisher(relay: Relay, transport: Transport) -> RelayPublisher:
    return RelayPublisher(RelayClient(relay.url, PROJECT, Ed25519PrivateKey.generate()), transport)


async def published(publisher: RelayPublisher, *publications: Publication) -> bool:
    outcomes = await asyncio.to_thread(publisher.publish, publications)
    return outcomes == [PublishOutcome.PUBLISHED] * len(publications)


async def test_what_is_published_comes_by_the_source_and_is_acknowledged(
    relay: Relay, publisher: RelayPublisher, running: Run, relay_settings: MakeRelaySettings, commands: CommandQueue
) -> None:
    add_topic(OTHER_TOPIC)
    async with running(relay_settings(relay)):
        await relay.until_watched()
        assert await published(publisher, SUBSCRIBE, MESSAGE, RECEIPT)
        await commands.holds(2)
        while relay.unacknowledged:
            await asyncio.sleep(0.01)
    assert {(one.topic, one.message, one.tag) for one in commands.read()} == {
        (one.topic, one.message, one.tag) for one in (SUBSCRIBE, RECEIPT)
    }


async def test_a_topic_that_has_ended_is_no_longer_subscribed_to(
    relay: Relay, running: Run, relay_settings: MakeRelaySettings
) -> None:
    add_topic(OTHER_TOPIC)
    async with running(relay_settings(relay)):
        while relay.topics != {TOPIC, OTHER_TOPIC}:
            await asyncio.sleep(0.01)
        FollowedTopic(OTHER_TOPIC).update(ending(now_ms()))
        while relay.topics != {TOPIC}:
            await asyncio.sleep(0.01)


async def test_what_comes_again_with_each_connection_is_sent_once(
    relay: Relay, publisher: RelayPublisher, running: Run, relay_settings: MakeRelaySettings, commands: CommandQueue
) -> None:
    assert await published(publisher, SUBSCRIBE)
    async with running(relay_settings(relay)):
        await commands.holds(1)
        relay.end_connections()
        while relay.subscribers:
            await asyncio.sleep(0)
        await relay.until_watched()
        assert await published(publisher, publication(TOPIC, "bmV4dA==", "notify_update"))
        await commands.holds(2)
    assert [one.message for one in commands.read()] == [SUBSCRIBE.message, "bmV4dA=="]
