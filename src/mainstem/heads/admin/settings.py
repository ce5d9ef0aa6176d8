"""Settings of the admin head: the section ``admin`` of a node's settings."""

from typing import Annotated

from mainstem.core.setting_types import MIB
from mainstem.heads.addresses import AUTO
from mainstem.heads.head import HeadSettings

MAX_EVENTS = 1_000
"""Maximum number of events on one page."""
MAX_BODY_BYTES = MIB
"""Maximum size of the arguments of an operation; definitions are the largest."""


class AdminSettings(HeadSettings, frozen=True):
    """Settings of the admin head."""

    listen: Annotated[
        str,
        "Address of /livez, /readyz and /metrics: HOST:PORT (port 0 takes a free "
        "one), off, or auto: 127.0.0.1:9644, or a free port if that is taken.",
    ] = AUTO
    max_connections: int = 256
    """Maximum number of connections; others are refused."""
    request_s: float = 10.0
    """How long a peer may take to send its request."""
