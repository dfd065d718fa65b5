"""Which addresses a request that a person causes may reach: public ones, and no others."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address

_NOT_PUBLIC: Final[dict[str, str]] = {
    "0.0.0.0/8": "of this host itself",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "of a carrier's network",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local, where the metadata of instances is, too",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "for documentation",
    "192.88.99.0/24": "reserved",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "for measurements",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_NETWORKS: Final = {IPv4Network(net): why for net, why in _NOT_PUBLIC.items()}
#: Addresses of the internet. All else of IPv6 is of a host, a site or a translation.
_GLOBAL_V6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final = {
    IPv6Network("2001::/23"): "reserved",
    IPv6Network("2001:db8::/32"): "for documentation",
    IPv6Network("2002::/16"): "a translation to IPv4",
    IPv6Network("3fff::/20"): "for documentation",
}


def address_of(text: str) -> Address | None:
    """The address that a text is; None of a name."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def why_not_public(address: Address) -> str:
    """What kind of address it is; '' of a public one."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return why_not_public(address.ipv4_mapped) or "an IPv4 address written as IPv6"
        if address.is_loopback:
            return "loopback"
        if address not in _GLOBAL_V6:
            return "no address of the internet"
        return next((why for net, why in _NOT_PUBLIC_V6.items() if address in net), "")
    return next((why for net, why in _NETWORKS.items() if address in net), "")
