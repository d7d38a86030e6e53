import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from clarion.networks.xmtp import decode
from clarion.networks.xmtp.topics import group_topic
from local.ports import reserved_port
from local.tls import Localhost
from local.xmtp_node import SERVICE, DevelopmentNode, XmtpNetwork
from local.xmtp_publish import publish

TOPIC = group_topic(b"a group of sixteen")
SECOND = 1_000_000_000

type Envelopes = Any
"""grpc's call: an asynchronous iterator of bytes."""


@pytest.fixture
def authorities(localhost: Localhost) -> bytes:
    return localhost.ca_file.read_bytes()


@asynccontextmanager
async def channel_to(node: DevelopmentNode, localhost: Localhost) -> AsyncIterator[grpc.aio.Channel]:
    credentials = grpc.ssl_channel_credentials(localhost.ca_file.read_bytes())
    async with grpc.aio.secure_channel(node.url.removeprefix("https://"), credentials) as channel:
        yield channel


def open_stream(channel: grpc.aio.Channel) -> Envelopes:
    call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(f"/{SERVICE}/SubscribeAll")
    return call(b"", timeout=60)


@asynccontextmanager
async def following(node: DevelopmentNode, localhost: Localhost) -> AsyncIterator[Envelopes]:
    """A stream that the node has begun."""
    async with channel_to(node, localhost) as channel:
        stream = open_stream(channel)
        assert dict(await stream.initial_metadata())["subscribed"] == "true"
        yield stream


async def test_a_node_shows_what_is_published_after_a_stream_began(localhost: Localhost) -> None:
    async with DevelopmentNode(localhost) as node:
        node.show(TOPIC, b"before anybody listens")
        async with following(node, localhost) as stream:
            raw = node.show(TOPIC, b"hello")

            shown = await stream.read()

            assert shown == raw
            assert (decode(shown).topic, decode(shown).message) == (TOPIC, b"hello")


async def test_two_nodes_show_the_same_message_each_with_its_own_time(localhost: Localhost) -> None:
    async with (
        DevelopmentNode(localhost, now=lambda: SECOND) as one,
        DevelopmentNode(localhost, now=lambda: 2 * SECOND) as other,
        following(one, localhost) as first,
        following(other, localhost) as second,
    ):
        XmtpNetwork(one, other).publish(TOPIC, b"hello")

        shown = [decode(await stream.read()) for stream in (first, second)]

    assert [message.timestamp_ns for message in shown] == [SECOND, 2 * SECOND]
    assert len({message.id for message in shown}) == 1


@pytest.mark.parametrize("status", [grpc.StatusCode.OK, grpc.StatusCode.INTERNAL])
async def test_a_node_ends_its_streams_with_a_status_and_accepts_new_ones(
    localhost: Localhost, status: grpc.StatusCode
) -> None:
    async with DevelopmentNode(localhost) as node:
        async with following(node, localhost) as stream:
            node.end_streams(status)
            assert await stream.code() == status
        assert node.subscribers == 0

        async with following(node, localhost) as stream:
            raw = node.show(TOPIC, b"hello again")
            assert await stream.read() == raw


async def test_a_node_refuses_streams_until_it_accepts_them(localhost: Localhost) -> None:
    async with DevelopmentNode(localhost) as node, channel_to(node, localhost) as channel:
        node.refuse(grpc.StatusCode.PERMISSION_DENIED)
        assert await open_stream(channel).code() == grpc.StatusCode.PERMISSION_DENIED

        node.accept()
        stream = open_stream(channel)
        await stream.initial_metadata()
        assert node.subscribers == 1


async def test_a_stalled_node_shows_nothing_until_it_resumes(localhost: Localhost) -> None:
    async with DevelopmentNode(localhost) as node, following(node, localhost) as stream:
        node.stall()
        raw = node.show(TOPIC, b"late")
        reading = asyncio.create_task(stream.read())
        _, pending = await asyncio.wait([reading], timeout=0.2)
        assert pending

        node.resume()

        assert await reading == raw


async def test_a_node_shows_whatever_bytes_it_is_given(localhost: Localhost) -> None:
    async with DevelopmentNode(localhost) as node, following(node, localhost) as stream:
        node.show_raw(b"\xffno protobuf")
        assert await stream.read() == b"\xffno protobuf"


async def test_a_subscriber_that_lags_behind_is_ended_after_what_it_missed_nothing_of(localhost: Localhost) -> None:
    async with DevelopmentNode(localhost) as node, following(node, localhost) as stream:
        node.stall()
        shown = [node.show(TOPIC, b"message %d" % number) for number in range(1_100)]
        node.resume()

        read = [raw async for raw in stream]

        assert read == shown[: len(read)]
        assert 1_024 <= len(read) < 1_100
        assert await stream.code() == grpc.StatusCode.OK


async def test_a_node_that_went_away_comes_back_at_its_address(localhost: Localhost) -> None:
    with reserved_port() as port:
        node = DevelopmentNode(localhost, port=port)
        async with node:
            url = node.url
        async with channel_to(node, localhost) as channel:
            assert await open_stream(channel).code() == grpc.StatusCode.UNAVAILABLE
        async with node, following(node, localhost) as stream:
            assert node.url == url
            raw = node.show(TOPIC, b"back")
            assert await stream.read() == raw


async def test_a_node_shows_what_another_process_hands_it(localhost: Localhost, authorities: bytes) -> None:
    async with DevelopmentNode(localhost) as node, following(node, localhost) as stream:
        shown = await publish(node.url, authorities, TOPIC, b"hello")
        assert await stream.read() == shown
        assert (decode(shown).topic, decode(shown).message) == (TOPIC, b"hello")
