"""The URLs that endpoints may have: http or https, a plain host name or address, no credentials."""

import ipaddress
import re
from urllib.parse import urlsplit

from mainstem.core.errors import InvalidSetting

MAX_URL = 2_000
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)", re.IGNORECASE | re.ASCII)
_HOST_NAME = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE | re.ASCII)
_CONTROL = re.compile(r"[\x00-\x20\x7f\\]")


def check_url(url: str) -> None:
    """Raise InvalidSetting if an endpoint must not have this URL.

    The address that its host resolves to is checked later, when a connection is made.
    """
    reason = _refusal(url)
    if reason:
        raise InvalidSetting(
            f"the URL of an endpoint {reason}; give http://HOST/… or https://HOST/…"
        )


def address_in(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address if a host is written as one, None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _refusal(url: str) -> str:
    if len(url) > MAX_URL:
        return f"has {len(url)} characters, and {MAX_URL} is the limit"
    if not url.isascii() or _CONTROL.search(url):
        return "has blanks, backslashes, control characters or letters beyond ASCII"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return f"cannot be parsed ({error})"
    wrong = (
        (
            parts.scheme not in ("http", "https"),
            f"has the scheme {parts.scheme!r:.20}, which is not http or https",
        ),
        ("@" in parts.netloc, "has credentials before its host"),
        (bool(parts.fragment), "has a fragment"),
        (not host or port == 0, "has no host, or port 0"),
    )
    return next((what for is_so, what in wrong if is_so), "") or _host_refusal(host or "")


def _host_refusal(host: str) -> str:
    if address_in(host) is not None:
        return "has an address with a zone" if "%" in host else ""
    if not _HOST_NAME.fullmatch(host) or len(host) > 253:
        return f"has a host that is not a name or an address: {host!r:.100}"
    # Resolvers take 2130706433, 0x7f.1 and 0177.0.0.1 for addresses.
    if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        return f"has an address that is not four decimal numbers: {host!r:.100}"
    return ""
