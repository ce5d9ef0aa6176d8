"""Settings that the ZeroMQ head and the nng head have in common."""

from typing import Annotated

from msgspec import Meta

from mainstem.heads.addresses import AUTO, NONE
from mainstem.heads.head import HeadSettings

PeerBytes = Annotated[int, Meta(ge=64)]
"""The size of a message of a peer."""


class BrokerlessSettings(HeadSettings, frozen=True):
    """Settings of a head of brokerless messaging; it answers requests for replays at ``listen``."""

    publish: Annotated[
        str,
        "Address of the PUB socket: HOST:PORT; or auto, the port after that of "
        "listen (any free port if listen has port 0).",
    ] = AUTO
    pull: Annotated[
        str,
        "PULL sockets whose messages are appended to topics, separated by commas: "
        "TOPIC=HOST:PORT; or none.",
    ] = NONE
    collect: Annotated[
        str,
        "Publishers to which the server subscribes, to append their messages to topics; "
        "separated by commas: "
        "TOPIC=tcp://HOST:PORT, with #PREFIX for a subscription; or none.",
    ] = NONE
    push: Annotated[
        str,
        "PUSH sockets that send the events of queues to workers, separated by commas: "
        "TOPIC/QUEUE=HOST:PORT; or none.",
    ] = NONE
