"""What a peer of an HTTP head may send, and how long it may take."""

from typing import Protocol

import msgspec

from mainstem.core.setting_types import KIB, MIB


class WebLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of every connection of one HTTP head."""

    max_connections: int = 1024
    """Maximum number of connections. For one more, another that waits for its peer is closed."""
    max_head_bytes: int = 16 * KIB
    """Maximum size of the request line and all headers."""
    max_headers: int = 100
    max_url_bytes: int = 8 * KIB
    max_body_bytes: int = MIB
    """Maximum size of a request's body as it is sent; more is refused before it is buffered."""
    max_message_bytes: int = MIB
    """Maximum size of a WebSocket message, whatever its number of fragments."""
    head_s: float = 10.0
    """How long a peer may take until its first request, and for the head of each."""
    body_s: float = 60.0
    """How long a peer may take for a body, except while the server does not read."""
    idle_s: float = 30.0
    """How long a connection may be kept alive between two requests."""
    stalled_s: float = 60.0
    """How long a peer may leave an answer unread."""


class WebSettings(Protocol):
    """The settings of a head that limit its connections."""

    @property
    def max_connections(self) -> int:
        """Maximum connections."""

    @property
    def max_body_bytes(self) -> int:
        """Maximum size of a request's body in bytes."""


def limits_of(settings: WebSettings, *, stalled_s: float = 60.0) -> WebLimits:
    """Return the limits that a head's settings say."""
    return WebLimits(
        max_connections=settings.max_connections,
        max_body_bytes=settings.max_body_bytes,
        stalled_s=stalled_s,
    )
