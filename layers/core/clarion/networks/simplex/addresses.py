"""Servers and queues by their addresses.

    ntf://<identity>@host[,onion host][:port]                 ours, as apps are given it
    smp://<identity>@host[,host …][:port]/<notifier id>       a queue, as items name it

Identities are fingerprints; they and ids stand in base64url with its padding. Agents look a queue up by exactly the
hosts and the port that they have sent, so these stay as they came.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from clarion.networks.simplex.encoding import MalformedSimplex, Reader, items, short
from clarion.networks.simplex.transmissions import read_id

IDENTITY_BYTES = sha256().digest_size
NTF_PORT = 443
_HOST = re.compile(rb"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")
_PORT = re.compile(rb"[0-9]{0,5}")
_HIGHEST_PORT = 0xFFFF


@dataclass(frozen=True, slots=True)
class SmpServer:
    """`port` is the text that the agent sent, empty for none. Only one of the hosts need be reachable."""

    hosts: tuple[str, ...]
    port: str
    identity: bytes

    @property
    def encoded(self) -> bytes:
        hosts = items(short(host.encode()) for host in self.hosts)
        return hosts + short(self.port.encode()) + short(self.identity)

    @property
    def uri(self) -> str:
        return _uri("smp", self.identity, self.hosts, self.port)


@dataclass(frozen=True, slots=True)
class SmpQueue:
    """A queue as its notifier knows it."""

    server: SmpServer
    notifier_id: bytes = field(repr=False)

    @property
    def encoded(self) -> bytes:
        return self.server.encoded + short(self.notifier_id)

    @property
    def uri(self) -> str:
        return f"{self.server.uri}/{padded_base64url(self.notifier_id)}"


def read_queue(reader: Reader) -> SmpQueue:
    """Raises `MalformedSimplex`."""
    server, notifier_id = _read_server(reader), read_id(reader)
    if not notifier_id:
        raise MalformedSimplex("a queue without id")
    return SmpQueue(server, notifier_id)


def ntf_address(identity: bytes, hosts: Sequence[str], port: int = NTF_PORT) -> str:
    return _uri("ntf", identity, hosts, "" if port == NTF_PORT else str(port))


def padded_base64url(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode()


def _uri(scheme: str, identity: bytes, hosts: Sequence[str], port: str) -> str:
    return f"{scheme}://{padded_base64url(identity)}@{','.join(hosts)}{port and ':'}{port}"


def _read_server(reader: Reader) -> SmpServer:
    hosts, port, identity = reader.items(reader.short), reader.short(), reader.short()
    if not hosts or not all(map(_HOST.fullmatch, hosts)):
        raise MalformedSimplex("not a list of hosts")
    if not _PORT.fullmatch(port) or int(port or b"0") > _HIGHEST_PORT:
        raise MalformedSimplex("not a port")
    if len(identity) != IDENTITY_BYTES:
        raise MalformedSimplex("not a fingerprint")
    return SmpServer(tuple(host.decode() for host in hosts), port.decode(), identity)
