"""Settings of the nng head: the section ``nng`` of a node's settings."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.head import HeadSettings, MaxConnections

NONE = "none"
AUTO = "auto"


class NngSettings(HeadSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the nng head; its listen address is that of the REP socket for replays."""

    publish: Annotated[
        str,
        Meta(
            description="Address of the PUB socket: HOST:PORT; or auto, the port after that of "
            "listen (any free port if listen has port 0)."
        ),
    ] = AUTO
    topics: Annotated[
        str, Meta(description="Topics that are published, separated by commas; or none.")
    ] = NONE
    pull: Annotated[
        str,
        Meta(
            description="PULL sockets that collect messages, separated by commas: TOPIC=HOST:PORT; "
            "or none."
        ),
    ] = NONE
    collect: Annotated[
        str,
        Meta(
            description="Publishers that are subscribed to, separated by commas: "
            "TOPIC=tcp://HOST:PORT, with #PREFIX for a subscription; or none."
        ),
    ] = NONE
    push: Annotated[
        str,
        Meta(
            description="PUSH sockets that hand out queues, separated by commas: "
            "TOPIC/QUEUE=HOST:PORT; or none."
        ),
    ] = NONE
    queue_length: Annotated[
        int, Meta(ge=1, le=8192, description="Messages that wait for a slow peer.")
    ] = 1024
    max_message_bytes: Annotated[
        int, Meta(ge=64, description="Maximum bytes of a received message; more cuts off its peer.")
    ] = 1024 * 1024
    max_connections: MaxConnections = 1_000
