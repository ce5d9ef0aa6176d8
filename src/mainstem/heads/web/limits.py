"""What a peer of an HTTP head may send, and how long it may take."""

import msgspec

KIB = 1024


class WebLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of every connection of one HTTP head."""

    max_connections: int = 1024
    """Connections at a time. If there are as many, one whose peer owes us something gives way."""
    max_head_bytes: int = 16 * KIB
    """Size of the request line and all headers."""
    max_headers: int = 100
    max_url_bytes: int = 8 * KIB
    max_body_bytes: int = 1024 * KIB
    """Size of a request's body as it is sent; more is refused before it is buffered."""
    max_message_bytes: int = 1024 * KIB
    """Size of a WebSocket message, whatever its number of fragments."""
    head_s: float = 10.0
    """How long a peer may take for its first request, and for the head of each."""
    body_s: float = 60.0
    """How long a peer may take for a body, except while the server does not read."""
    idle_s: float = 30.0
    """How long a connection may be kept alive between two requests."""
    stalled_s: float = 60.0
    """How long a peer may leave its answer unread."""
