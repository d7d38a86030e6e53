"""Connections to hosts that agents have named: at public addresses alone, and bounded, so that none takes what others need.

    host ──resolved──▶ addresses ──public ones──▶ socket
          in a thread        looked at here, and connected to as they are

Proven servers have a lane of their own: names that nobody resolves delay only each other. How many are connected to at a
time is for `ingest.sources.simplex.places`.
"""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address
from ssl import SSLContext

from clarion.networks.simplex.addresses import SmpServer
from clarion.public_addresses import is_public
from clarion.tls_stream import TlsStream
from ingest.sources import SourceFault, SourceLost
from ingest.sources.simplex.handshake import SmpConnection, greet

SMP_PORT = 5223
"""Of a server that is named without."""
RESOLVING_SECONDS, CONNECTING_SECONDS = 10.0, 15.0
_ADDRESSES = 3
"""Of one server that are tried at a time."""
_RESOLVING = 16
"""At once, in one lane. A name that isn't resolved in time goes on holding its thread."""
_ONION = ".onion"


class Unresolved(SourceLost):
    """No host of it has an address that may be connected to."""


class Lane:
    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVING, thread_name_prefix=name)
        self._free_threads = asyncio.Semaphore(_RESOLVING)

    async def resolve(self, host: str, port: int) -> list[str]:
        """Its addresses. Raise `OSError`, also if that takes too long."""
        await self._free_threads.acquire()
        loop = asyncio.get_running_loop()
        resolving = loop.run_in_executor(self._threads, _addresses_of, host, port)
        resolving.add_done_callback(self._resolved)
        return await asyncio.wait_for(asyncio.shield(resolving), RESOLVING_SECONDS)

    def _resolved(self, resolving: "asyncio.Future[list[str]]") -> None:
        self._free_threads.release()
        if not resolving.cancelled():
            resolving.exception()  # whoever waited for it may have gone


class Connector:
    """`loopback`: whether this machine's own addresses are connected to as well."""

    def __init__(self, context: SSLContext, *, loopback: bool) -> None:
        self._context = context
        self._loopback = loopback
        self._proven, self._unproven = Lane("resolving"), Lane("resolving-unproven")

    async def connect(self, server: SmpServer, *, proven: bool) -> SmpConnection:
        """`proven`: whether it has accepted a subscription lately. Raise `SourceFault`."""
        addresses = await self._addresses(self._proven if proven else self._unproven, server)
        for address in addresses[:-1]:
            with suppress(SourceFault):
                return await self._try(server, address)
        return await self._try(server, addresses[-1])

    async def _addresses(self, lane: Lane, server: SmpServer) -> Sequence[str]:
        """At least one."""
        found: list[str] = []
        for host in [host for host in server.hosts if not host.lower().endswith(_ONION)][:_ADDRESSES]:
            with suppress(OSError):
                found += await lane.resolve(host.strip("[]"), port_of(server))
        public = self._reachable(found)
        if not public:
            raise Unresolved("its name leads nowhere" if not found else "its name leads to no public address")
        return public

    def _reachable(self, addresses: Iterable[str]) -> Sequence[str]:
        found = dict.fromkeys(address for address in addresses if is_public(address) or self._is_admitted(address))
        return list(found)[:_ADDRESSES]

    def _is_admitted(self, address: str) -> bool:
        return self._loopback and ip_address(address).is_loopback

    async def _try(self, server: SmpServer, address: str) -> SmpConnection:
        try:
            return await self._connect(server, address)
        except OSError as error:
            raise SourceLost(type(error).__name__) from None

    async def _connect(self, server: SmpServer, address: str) -> SmpConnection:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            opened.setblocking(False)
            async with asyncio.timeout(CONNECTING_SECONDS):
                await asyncio.get_running_loop().sock_connect(opened, (address, port_of(server)))
                return await greet(TlsStream(opened, self._context), server)
        except BaseException:
            opened.close()
            raise


def port_of(server: SmpServer) -> int:
    return int(server.port or SMP_PORT)


def _addresses_of(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that is too long
        raise OSError from error
    return [str(address[0]).partition("%")[0] for *_, address in found]
