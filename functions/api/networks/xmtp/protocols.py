"""Two ways to make one call over HTTP/1.1: Connect's unary protocol, and gRPC-web. Pure: bytes and headers, no AWS.

    Connect    the body is the message; an error is a status and {"code": …, "message": …}
    gRPC-web   the body is frames: flags (1 byte), length (4 bytes, big-endian), data. A call has one frame with the
               message; an answer one as well and then one with the trailers, which say how it ended. In the `-text`
               variant the body is base64. The status is always 200.

Plain gRPC needs HTTP/2 to the end and trailers of HTTP, which API Gateway has not.

https://connectrpc.com/docs/protocol, https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md
"""

import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple, Protocol
from urllib.parse import quote

from api.networks.xmtp.codecs import Codec
from api.networks.xmtp.codes import CallCode, CallError

type Headers = Mapping[str, str]
"""With names in lower case."""

JSON = "application/json"
FRAME_HEAD_BYTES = 5
COMPRESSED, TRAILERS = 0x01, 0x80
_GZIP = 16 + zlib.MAX_WBITS
_MILLISECONDS = re.compile(r"\d{1,10}", re.ASCII)
_GRPC_TIMEOUT = re.compile(r"(\d{1,8})([HMSmun])", re.ASCII)
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_AS_IT_IS = "".join(chr(byte) for byte in range(0x20, 0x7F) if chr(byte) != "%")
"""What a trailer's text need not escape: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses"""


class HttpAnswer(NamedTuple):
    status: int
    media_type: str
    body: bytes
    headers: Headers = MappingProxyType({})


class CallProtocol(Protocol):
    """How the client speaks, as the media type of its request says."""

    codec: Codec

    def message(self, headers: Headers, body: bytes, limit: int) -> bytes:
        """The message of a call, of at most `limit` bytes; raises `CallError`."""

    def seconds(self, headers: Headers) -> float | None:
        """How long the client waits, if it says so; raises `CallError`."""

    def answer(self, message: bytes) -> HttpAnswer: ...

    def refusal(self, error: CallError) -> HttpAnswer: ...


class ConnectUnary:
    def __init__(self, codec: Codec) -> None:
        self.codec = codec

    def message(self, headers: Headers, body: bytes, limit: int) -> bytes:
        version = headers.get("connect-protocol-version", "1")
        if version != "1":
            raise CallError(CallCode.INVALID_ARGUMENT, "connect-protocol-version must be 1")
        return _expanded(body, headers.get("content-encoding", ""), limit)

    def seconds(self, headers: Headers) -> float | None:
        timeout = headers.get("connect-timeout-ms")
        if timeout is None:
            return None
        if not _MILLISECONDS.fullmatch(timeout):
            raise CallError(CallCode.INVALID_ARGUMENT, "connect-timeout-ms must be up to 10 digits")
        return int(timeout) / 1000

    def answer(self, message: bytes) -> HttpAnswer:
        return HttpAnswer(HTTPStatus.OK, f"application/{self.codec.value}", message)

    def refusal(self, error: CallError) -> HttpAnswer:
        body = json.dumps({"code": error.code.word, "message": error.message}, separators=(",", ":"))
        return HttpAnswer(error.code.status, JSON, body.encode(), error.headers)


class GrpcWeb:
    def __init__(self, codec: Codec, media_type: str, *, text: bool = False) -> None:
        """`media_type` is that of the request, and so of the answer; with `text` bodies are base64."""
        self.codec = codec
        self._media_type = media_type
        self._text = text

    def message(self, headers: Headers, body: bytes, limit: int) -> bytes:
        flags, message = only_frame(_from_base64(body) if self._text else body)
        if flags == 0:
            return message
        if flags != COMPRESSED:
            raise CallError(CallCode.INVALID_ARGUMENT, "a frame with unknown flags")
        return _expanded(message, headers.get("grpc-encoding", ""), limit)

    def seconds(self, headers: Headers) -> float | None:
        timeout = headers.get("grpc-timeout")
        if timeout is None:
            return None
        found = _GRPC_TIMEOUT.fullmatch(timeout)
        if not found:
            raise CallError(CallCode.INVALID_ARGUMENT, "grpc-timeout must be up to 8 digits and a unit")
        return int(found[1]) * _UNITS[found[2]]

    def answer(self, message: bytes) -> HttpAnswer:
        return self._framed(frame(0, message) + _trailers(0, ""))

    def refusal(self, error: CallError) -> HttpAnswer:
        return self._framed(_trailers(error.code.number, error.message), error.headers)

    def _framed(self, body: bytes, headers: Headers | None = None) -> HttpAnswer:
        return HttpAnswer(HTTPStatus.OK, self._media_type, b64encode(body) if self._text else body, headers or {})


def protocol_of(media_type: str) -> CallProtocol | None:
    """None for what is not spoken here. Parameters, such as a character set, don't matter."""
    return _PROTOCOLS.get(media_type.partition(";")[0].strip().lower())


def frame(flags: int, data: bytes) -> bytes:
    return bytes([flags]) + len(data).to_bytes(FRAME_HEAD_BYTES - 1) + data


def only_frame(body: bytes) -> tuple[int, bytes]:
    """The flags and data of a body that is one frame; raises `CallError`."""
    if not body:
        raise CallError(CallCode.UNIMPLEMENTED, "a call takes one message, not none")
    end = FRAME_HEAD_BYTES + int.from_bytes(body[1:FRAME_HEAD_BYTES])
    if len(body) < max(end, FRAME_HEAD_BYTES):
        raise CallError(CallCode.INVALID_ARGUMENT, "an incomplete frame")
    if len(body) > end:
        raise CallError(CallCode.UNIMPLEMENTED, "a call takes one message, not several")
    return body[0], body[FRAME_HEAD_BYTES:]


def _trailers(number: int, text: str) -> bytes:
    lines = f"grpc-status: {number}\r\n" + (f"grpc-message: {quote(text, safe=_AS_IT_IS)}\r\n" if text else "")
    return frame(TRAILERS, lines.encode())


def _from_base64(body: bytes) -> bytes:
    try:
        return b64decode(body, validate=True)
    except ValueError:
        raise CallError(CallCode.INVALID_ARGUMENT, "not base64") from None


def _expanded(body: bytes, encoding: str, limit: int) -> bytes:
    """What was compressed, but not more of it than `limit` bytes."""
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip":
            return _gunzipped(body, limit)
        case _:
            raise CallError(CallCode.UNIMPLEMENTED, "unknown compression: gzip and identity are supported")


def _gunzipped(body: bytes, limit: int) -> bytes:
    if not body:
        return body
    stream = zlib.decompressobj(_GZIP)
    try:
        expanded = stream.decompress(body, limit + 1)
    except zlib.error:
        raise CallError(CallCode.INVALID_ARGUMENT, "not gzip") from None
    if len(expanded) > limit:
        raise CallError(CallCode.RESOURCE_EXHAUSTED, f"the message is too large: at most {limit} bytes")
    if not stream.eof or stream.unused_data:
        raise CallError(CallCode.INVALID_ARGUMENT, "not one whole gzip stream")
    return expanded


_GRPC_WEB = "application/grpc-web"
_PROTOCOLS: dict[str, CallProtocol] = {
    **{f"application/{codec.value}": ConnectUnary(codec) for codec in Codec},
    **{f"{_GRPC_WEB}{suffix}": GrpcWeb(Codec.PROTO, f"{_GRPC_WEB}{suffix}") for suffix in ("", "+proto")},
    f"{_GRPC_WEB}+json": GrpcWeb(Codec.JSON, f"{_GRPC_WEB}+json"),
    **{
        f"{_GRPC_WEB}-text{suffix}": GrpcWeb(Codec.PROTO, f"{_GRPC_WEB}-text{suffix}", text=True)
        for suffix in ("", "+proto")
    },
}
"""By media type."""
MEDIA_TYPES = tuple(_PROTOCOLS)
