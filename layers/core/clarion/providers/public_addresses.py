"""Sockets of libcurl that reach public IP addresses alone, for requests to hosts that somebody else has chosen.

https://curl.se/libcurl/c/CURLOPT_OPENSOCKETFUNCTION.html
"""

import socket
from typing import Protocol

import pycurl

from clarion.public_addresses import is_public


class SocketAddress(Protocol):
    """pycurl's `CurlSockAddr`."""

    @property
    def family(self) -> int: ...

    @property
    def socktype(self) -> int: ...

    @property
    def protocol(self) -> int: ...

    @property
    def addr(self) -> tuple[str, int] | tuple[str, int, int, int]: ...


class _Opened(socket.socket):
    """pycurl hands libcurl a duplicate of the descriptor and lets go of the original."""

    def __del__(self) -> None:
        self.close()


def open_public_socket(_purpose: int, address: SocketAddress) -> socket.socket | int:
    """For libcurl, which then tries the host's next address; without one, the request ends with E_COULDNT_CONNECT."""
    if address.family in {socket.AF_INET, socket.AF_INET6} and is_public(address.addr[0]):
        return _Opened(address.family, address.socktype, address.protocol)
    refused: int = pycurl.SOCKET_BAD
    return refused
