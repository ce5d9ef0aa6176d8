"""Which hosts and origins a request may name: protects local ports against web pages.

How this works: a web page can make any domain resolve to 127.0.0.1 (DNS rebinding), but cannot
change the Host header, so a request must name a known host. A page of another origin can also send
simple requests without the server's consent (CSRF), and open WebSockets; browsers then send the
page's origin, so such requests are refused if the origin is foreign. ``with_cors`` lets pages of
allowed origins read answers.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mainstem.heads.web.problem import Refused

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOCAL = frozenset(("127.0.0.1", "localhost", "[::1]"))
"""The names of this machine."""
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
"""HTTP methods that change nothing."""


class Origins(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts and origins that the requests of one head may name."""

    hosts: frozenset[str] = LOCAL
    """Names that the Host header may have, whatever its port; ``*`` allows all."""
    hostless: frozenset[str] = frozenset()
    """Paths that may be requested with HTTP/1.0 without a Host header, as load balancers do."""
    allowed: frozenset[str] = frozenset()
    """Foreign origins whose pages may send requests, such as ``https://shop.example``."""

    def check(self, method: str, target: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Raise Refused for a request that names no host or a foreign one, or a foreign origin."""
        host = origin = ""
        upgrade = False
        for name, value in headers:
            if name == b"host":
                if host:
                    # [RFC 9112, 3.2]: a proxy in between may have checked the other one.
                    raise Refused(400, "there are several Host headers")
                host = value.decode("latin-1").lower()
            elif name == b"origin":
                origin = value.decode("latin-1").lower()
            elif name == b"upgrade":
                upgrade = True
        if not host:
            if target.partition("?")[0] not in self.hostless:
                raise Refused(400, "the Host header is missing")
        elif host_name(host) not in self.hosts and "*" not in self.hosts:
            raise Refused(
                421,
                "the Host header does not name this server: "
                f"use {' or '.join(sorted(self.hosts)[:3])}",
            )
        if origin and (upgrade or method not in SAFE) and not self.allows(origin, host):
            raise Refused(403, "web pages of other origins may not send this request")

    def allows(self, origin: str, host: str) -> bool:
        """Tell whether the pages of an origin may send requests that change something."""
        return origin in (f"http://{host}", f"https://{host}") or origin in self.allowed


def host_name(host: str) -> str:
    """Return the name in a Host header without the port, which may differ behind a tunnel."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def with_cors(app: "ASGIApp", origins: Origins) -> "ASGIApp":
    """Return an app that lets web pages of the allowed origins read its answers."""
    if not origins.allowed:
        return app
    from starlette.middleware.cors import CORSMiddleware  # noqa: PLC0415 - few need it

    return CORSMiddleware(
        app,
        allow_origins=sorted(origins.allowed),
        allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["*"],
        expose_headers=["*"],
    )
