"""Which IP addresses are public: only these are connected to where somebody else has chosen the host.

The address is looked at when the connection is opened, and not before: a name that is resolved twice may give two
addresses.
"""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

UNICAST = IPv6Network("2000::/3")
"""All that IANA allots of IPv6: https://www.iana.org/assignments/ipv6-address-space"""
TRANSLATED = IPv6Network("64:ff9b::/96")
"""An IPv4 address behind NAT64: https://www.rfc-editor.org/rfc/rfc6052#section-2.1"""


def is_public(text: str) -> bool:
    """Raises `ValueError` for what is no address."""
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        if address in TRANSLATED:
            return is_public(str(IPv4Address(int(address) & 0xFFFFFFFF)))
        return address in UNICAST and address.is_global
    return address.is_global and not address.is_multicast
