"""The Kafka head: serves all Kafka clients of a node."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mainstem.broker.door import HeldPublish
from mainstem.heads.context import HeadContext
from mainstem.heads.conversation import Answer, Later, Outbox, ProtocolError
from mainstem.heads.kafka.adapter.apis import SERVED, api_versions, produce
from mainstem.heads.kafka.adapter.groups.consumer_protocol import ConsumerProtocol
from mainstem.heads.kafka.adapter.produce_fast_path import ProduceFastPath
from mainstem.heads.kafka.adapter.service import Asked, Service
from mainstem.heads.kafka.metrics import samples
from mainstem.heads.kafka.session import Session
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.heads.transport.server import Server, serve
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.produce import ProduceRequest
from mainstem.kafka_protocol.server_codec import UnsupportedVersion, encode_response

if TYPE_CHECKING:
    import socket


class KafkaConversation:
    """The requests of one client, answered in order."""

    def __init__(self, service: Service, peer: str) -> None:
        self._service = service
        self._peer = peer
        self._waiting: set[Callable[[], None]] = set()
        self._produce_fast_path = ProduceFastPath(service)
        self._session = Session(service.settings.max_frame_bytes)
        self.frame_size: Callable[[memoryview], int | None] = self._session.frame_size

    def handle(self, frame: memoryview) -> Answer | Later:
        """Carry out the request in a frame; return its response, or a Later for it."""
        known = None if self._service.draining else self._produce_fast_path.answer(frame)
        if known is not None and not isinstance(known, HeldPublish):
            return known
        try:
            request = self._session.receive(frame)
        except UnsupportedVersion as error:
            if error.api_key != api_versions.KEY:
                raise
            # "the broker answers in version 0" [KIP-511]
            body = api_versions.too_new()
            return encode_response(api_versions.KEY, 0, error.correlation_id, body)
        header = request.header
        served = SERVED.get(header.api_key)
        if served is None or not served.first <= header.api_version <= served.last:
            raise ProtocolError(
                f"API {header.api_key} in version {header.api_version} is not served here; "
                "ApiVersions tells what is"
            )
        counts = self._service.counts
        counts.requests[header.api_key] += 1
        later = Later()

        def reply(body: Wire | None) -> None:
            key, version = header.api_key, header.api_version
            if body is None:
                later.settle(())
            else:
                counts.answered(key, version, body)
                later.settle(partial(encode_response, key, version, header.correlation_id, body))

        asked = Asked(self._service, header, self._peer, self._waiting, later)
        if isinstance(request.body, ProduceRequest):
            produce.answer(asked, request.body, reply, known)
            self._produce_fast_path.learn(header, request.body)
        else:
            served.answer(asked, request.body, reply)
        return later if later.answer is None or later.failed else later.take()

    def handle_run(self, view: memoryview) -> tuple[Answer | Later, int] | None:
        """Append leading produce requests by the fast path; None if fewer than two are suitable."""
        return None if self._service.draining else self._produce_fast_path.take(view)

    def stop_waiting(self) -> None:
        """Answer the client's waiting requests now, because the client sends nothing more."""
        self.close()

    def close(self) -> None:
        """End the client's waiting requests, because it has disconnected."""
        for give_up in list(self._waiting):
            give_up()


async def start(context: HeadContext, settings: KafkaSettings, listener: "socket.socket") -> Server:
    """Start the Kafka head on a bound socket; return its server."""
    service = Service(context, settings)
    service.broker.consumers.use_protocol(ConsumerProtocol())

    def converse(outbox: Outbox) -> KafkaConversation:
        peer = context.auth.peer(outbox.peer, tls=outbox.is_tls)
        return KafkaConversation(service.as_seen_by(peer), peer.address)

    server = serve(
        listener,
        converse,
        max_connections=settings.max_connections,
        samples=partial(samples, service.counts),
    )
    service.host, service.port = server.address.host, server.address.port
    return server
