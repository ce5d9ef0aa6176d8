"""The IP addresses that requests may go to: public ones, and those that a setting allows.

How this works: the address is checked when a connection to it is made, so it does not matter how
the URL was written, or what its name resolved to before (DNS rebinding). An IPv6 address that
contains an IPv4 address (mapped, NAT64, 6to4, Teredo) is refused even if that address is public, as
the network decides where it leads; a setting can allow its range.
"""

import ipaddress
from collections.abc import Iterable

from mainstem.core.errors import InvalidSetting

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_REFUSED: tuple[tuple[Network, str], ...] = tuple(
    (ipaddress.ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this network"),
        ("100.64.0.0/10", "shared by providers (CGNAT)"),
        ("168.63.129.16/32", "a cloud provider's own services"),
        ("192.0.0.0/24", "reserved"),
        ("192.88.99.0/24", "a relay (6to4)"),
        ("::ffff:0:0/96", "an IPv4 address in IPv6 form"),
        ("::ffff:0:0:0/96", "an IPv4 address in IPv6 form"),
        ("::/96", "an IPv4 address in IPv6 form"),
        ("64:ff9b::/96", "translated to IPv4 (NAT64)"),
        ("64:ff9b:1::/48", "translated to IPv4 (NAT64)"),
        ("2001::/32", "a tunnel (Teredo)"),
        ("2002::/16", "a tunnel (6to4)"),
        ("5f00::/16", "segment routing"),
        ("fec0::/10", "site-local"),
    )
)


class AllowedAddresses:
    """Tells which addresses requests may go to."""

    def __init__(self, allowed: Iterable[Network] = ()) -> None:
        self._allowed = tuple(allowed)

    def refusal(self, address: str) -> str:
        """Return why requests may not go to this address; empty if they may."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return "not an IP address"
        if any(found in network for network in self._allowed):
            return ""
        return _refusal(found)


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parse networks separated by commas, such as ``10.0.0.0/8``; raises InvalidSetting."""
    found: list[Network] = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(ipaddress.ip_network(each))
        except ValueError as error:
            raise InvalidSetting(
                f"webhooks.allow = {text!r:.200}: {error}; write networks such as "
                "127.0.0.0/8,10.1.0.0/16,::1/128"
            ) from None
    return tuple(found)


def _refusal(address: Address) -> str:
    for network, what in _REFUSED:
        if address in network:
            return what
    traits = (
        (address.is_loopback, "loopback"),
        (address.is_link_local, "link-local"),
        (address.is_multicast, "multicast"),
        (address.is_private, "private"),
        (not address.is_global, "reserved"),
    )
    return next((what for is_so, what in traits if is_so), "")
