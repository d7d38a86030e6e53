"""The stream of envelopes from a node, with bounds on what the node can make this process do.

The library does what HTTP/2 can: a node that sends faster than we read waits as soon as `_WINDOW_BYTES` of it are unread,
and one that answers no ping is lost, also after its GOAWAY. Beyond its defaults:

- A message, and the metadata of an answer, have a largest size.
- Nothing compressed is taken: a small message could become a large one.
- Neither a proxy nor a service configuration in DNS is followed: a node is who the configuration names.
- Each subscription has a connection of its own, and the library neither retries nor reconnects: we do.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from grpc import ChannelConnectivity, ChannelCredentials, StatusCode
from grpc.aio import AioRpcError, Channel, UnaryStreamCall, UnaryStreamMultiCallable, secure_channel

from ingest.sources import SourceFault, SourceLost

METHOD: Final = "/xmtp.message_api.v1.MessageApi/SubscribeAll"
"""https://github.com/xmtp/proto/blob/main/proto/message_api/v1/message_api.proto"""
_REQUEST = b""
"""A `SubscribeAllRequest`, which has no fields."""
_WINDOW_BYTES = 256 * 1024
_METADATA_BYTES = 16 * 1024
_IDENTITY_ALONE = 1
"""The bit of no compression."""
_PING_MS, _PONG_MS = 16_000, 10_000
"""What nodes allow, for XMTP's own clients do so: https://github.com/xmtp/libxmtp"""
_CERTIFICATE_WORDS = ("certificate", "hostname verification")
_TRANSIENT_CODES = {
    StatusCode.UNAVAILABLE,
    StatusCode.CANCELLED,
    StatusCode.ABORTED,
    StatusCode.DEADLINE_EXCEEDED,
    StatusCode.UNKNOWN,
}
"""With which a node that restarts, or a proxy before it, may end a subscription."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """`target` is host and port; `credentials` say which authorities vouch for it."""

    target: str
    credentials: ChannelCredentials


class EnvelopeStream:
    """A subscription to all that a node is shown from now on: nodes replay nothing."""

    def __init__(self, call: UnaryStreamCall[bytes, bytes]) -> None:
        self._call = call

    async def answered(self) -> None:
        """Wait for the node's headers, which some servers send with the first envelope only. Raise `SourceFault`."""
        await self._call.initial_metadata()
        if self._call.done():
            raise _ended_with(await self._call.code())

    async def next(self) -> bytes:
        """Wait for the next raw envelope. Raise `SourceFault`."""
        try:
            raw = await self._call.read()
        except AioRpcError as error:
            raise _ended_with(error.code()) from None
        except Exception as error:  # noqa: BLE001 - it is what the library makes of what a node sends
            raise SourceFault(type(error).__name__) from None
        if not isinstance(raw, bytes):
            raise SourceLost("it ended the subscription")
        return raw


@asynccontextmanager
async def subscribe(address: NodeAddress, *, message_bytes: int, seconds: float) -> AsyncIterator[EnvelopeStream]:
    """Connect within so many seconds, and subscribe to everything. Raise `SourceFault`, or what is raised inside."""
    async with secure_channel(address.target, address.credentials, options=_options(message_bytes, seconds)) as channel:
        try:
            async with asyncio.timeout(seconds):
                await _connect(channel)
        except TimeoutError:
            raise SourceLost("no answer") from None
        call = _subscribe_to_all(channel)
        try:
            yield EnvelopeStream(call)
        finally:
            call.cancel()


def _subscribe_to_all(channel: Channel) -> UnaryStreamCall[bytes, bytes]:
    """Its messages are bytes, as nothing is named that would read them."""
    method: UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(METHOD)
    return method(_REQUEST)


async def _connect(channel: Channel) -> None:
    while (state := channel.get_state(try_to_connect=True)) is not ChannelConnectivity.READY:
        if state is ChannelConnectivity.TRANSIENT_FAILURE:
            raise await _unreachable(channel)
        await channel.wait_for_state_change(state)


async def _unreachable(channel: Channel) -> SourceFault:
    """Why there is no connection: a call says it. Only whether it is the certificate, for the text may be the node's."""
    try:
        await _subscribe_to_all(channel).read()
    except AioRpcError as error:
        if any(word in (error.details() or "").lower() for word in _CERTIFICATE_WORDS):
            return SourceFault("its certificate is not trusted")
    return SourceLost("no connection")


def _ended_with(code: StatusCode) -> SourceFault:
    kind = SourceLost if code in _TRANSIENT_CODES else SourceFault
    return kind(f"it ended the subscription, or a bound did: {code.name}")


def _options(message_bytes: int, connecting_seconds: float) -> list[tuple[str, int]]:
    """https://grpc.github.io/grpc/core/group__grpc__arg__keys.html"""
    return [
        ("grpc.max_receive_message_length", message_bytes),
        ("grpc.max_metadata_size", _METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", _METADATA_BYTES),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ALONE),
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.min_reconnect_backoff_ms", int(connecting_seconds * 1000)),  # what a connection may take
        ("grpc.keepalive_time_ms", _PING_MS),
        ("grpc.http2.ping_timeout_ms", _PONG_MS),  # by default a minute, whatever `keepalive_timeout_ms` says
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.use_local_subchannel_pool", 1),
    ]
