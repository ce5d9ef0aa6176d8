"""A well-behaved client beside an attack on a head without a broker between its peers."""

from collections.abc import Callable

from tests.heads.kafka.raw_peers import Peer

from mainstem.kafka_protocol.messages.connection import (
    API_VERSIONS,
    ApiVersionsRequest,
    ApiVersionsResponse,
)


class Healthy:
    """A client of the Kafka head, and of the attacked one, if ``ask`` is given."""

    def __init__(self, kafka: Peer, ask: Callable[[], None] = lambda: None) -> None:
        self._kafka, self._ask = kafka, ask

    def check(self) -> None:
        """Be answered by both heads."""
        self._kafka.ask(API_VERSIONS, 0, ApiVersionsRequest(), ApiVersionsResponse)
        self._ask()
