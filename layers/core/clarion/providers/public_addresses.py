"""Sockets that reach public IP addresses alone, for requests to hosts that somebody else has chosen.

The address is looked at when the connection is opened, and not before: a name that is resolved twice may give two
addresses. https://curl.se/libcurl/c/CURLOPT_OPENSOCKETFUNCTION.html
"""

import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Protocol

import pycurl

UNICAST = IPv6Network("2000::/3")
"""All that IANA allots of IPv6: https://www.iana.org/assignments/ipv6-address-space"""
TRANSLATED = IPv6Network("64:ff9b::/96")
"""An IPv4 address behind NAT64: https://www.rfc-editor.org/rfc/rfc6052#section-2.1"""


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


def is_public(text: str) -> bool:
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        if address in TRANSLATED:
            return is_public(str(IPv4Address(int(address) & 0xFFFFFFFF)))
        return address in UNICAST and address.is_global
    return address.is_global and not address.is_multicast


def open_public_socket(_purpose: int, address: SocketAddress) -> socket.socket | int:
    """For libcurl, which then tries the host's next address; without one, the request ends with E_COULDNT_CONNECT."""
    if address.family in {socket.AF_INET, socket.AF_INET6} and is_public(address.addr[0]):
        return _Opened(address.family, address.socktype, address.protocol)
    refused: int = pycurl.SOCKET_BAD
    return refused
