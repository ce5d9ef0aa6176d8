"""Settings that the ZeroMQ head and the nng head have in common."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.head import HeadSettings

NONE = "none"
AUTO = "auto"


class BrokerlessSettings(HeadSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a head of brokerless messaging; it answers requests for replays at ``listen``."""

    publish: Annotated[
        str,
        Meta(
            description="Address of the PUB socket: HOST:PORT; or auto, the port after that of "
            "listen (any free port if listen has port 0)."
        ),
    ] = AUTO
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
