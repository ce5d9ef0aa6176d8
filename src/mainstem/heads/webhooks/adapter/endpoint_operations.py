"""Operations of the admin port on endpoints.

Permissions: changes need ALTER on the cluster, as an endpoint sends events out of it, and READ on
the endpoint's topics; the others need DESCRIBE on the cluster. A secret is returned only by the
operation that generates it.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as OutOfTime
from typing import TYPE_CHECKING

import msgspec
from yarl import URL

from mainstem.auth import CLUSTER, Action, Peer, Resource, ResourceKind
from mainstem.core.errors import Failure, InvalidSetting, MainstemError
from mainstem.heads.admin_operations import OperationFailed, operation
from mainstem.heads.webhooks.adapter.attempts import Attempt, last_attempts
from mainstem.heads.webhooks.adapter.endpoints import Endpoints, queue_settings
from mainstem.heads.webhooks.adapter.sender import signed_request
from mainstem.heads.webhooks.adapter.signing import Signing
from mainstem.heads.webhooks.endpoints import DAY, Endpoint, EndpointSettings, SigningSecret
from mainstem.heads.webhooks.operations import (
    ADD,
    ATTEMPTS,
    LIST,
    PAUSE,
    REMOVE,
    REPLAY,
    RESUME,
    ROTATE,
    SHOW,
    TEST,
    AddEndpoint,
    EndpointInfo,
    ListAttempts,
    ListEndpoints,
    NameEndpoint,
    Replayed,
    ReplayEvents,
    RotateSecret,
    Secured,
    Tested,
)
from mainstem.heads.webhooks.payloads import JSON, Message, parse_message_id
from mainstem.heads.webhooks.schedule import Answer
from mainstem.heads.webhooks.signatures import PRIVATE, SYMMETRIC

if TYPE_CHECKING:
    from mainstem.heads.webhooks.adapter.service import Service

MAX_ATTEMPTS = 10_000
_KINDS = {"hmac": SYMMETRIC, "ed25519": PRIVATE}


class EndpointOperations:
    """The admin port's operations on endpoints.

    Must not be called in the event loop: the operations wait for it.
    """

    def __init__(self, service: "Service", endpoints: Endpoints) -> None:
        self._service, self._endpoints = service, endpoints
        self._context = service.context

    @operation(LIST, "GET webhooks")
    def list(self, peer: Peer, _: ListEndpoints) -> "Sequence[EndpointInfo]":
        """List webhook endpoints."""
        self._authorize(peer, Action.DESCRIBE)
        return self._context.from_thread(lambda: [self._info(it) for it in self._endpoints])

    @operation(SHOW, "GET webhooks/{name}")
    def show(self, peer: Peer, asked: NameEndpoint) -> EndpointInfo:
        """Show an endpoint."""
        self._authorize(peer, Action.DESCRIBE)
        return self._context.from_thread(lambda: self._info(self._endpoints.get(asked.name)))

    @operation(ATTEMPTS, "GET webhooks/{name}/attempts")
    def attempts(self, peer: Peer, asked: ListAttempts) -> "Sequence[Attempt]":
        """List the last attempts of an endpoint, the newest last."""
        self._authorize(peer, Action.DESCRIBE)
        if not 1 <= asked.limit <= MAX_ATTEMPTS:
            raise InvalidSetting(f"limit must be from 1 to {MAX_ATTEMPTS}")
        self._context.from_thread(lambda: self._endpoints.get(asked.name))
        return last_attempts(self._context.broker, asked.name, asked.limit, asked.id)

    @operation(ADD, "POST webhooks")
    def add(self, peer: Peer, asked: AddEndpoint) -> Secured:
        """Add an endpoint, or replace the definition of one."""
        self._authorize(peer, Action.ALTER)
        topics = Resource(ResourceKind.TOPIC, asked.topics)
        self._context.auth.authorize(peer.principal, Action.READ, topics)
        given = {each: getattr(asked, each) for each in EndpointSettings.__struct_fields__}
        endpoint = Endpoint(**given, created_ms=self._context.now_ms())
        endpoint.check()
        known = self._context.from_thread(lambda: self._endpoints.find(asked.name))
        if known is not None and not asked.replace:
            raise OperationFailed(
                Failure.EXISTS,
                f"there is an endpoint {asked.name} already; choose another name, or replace it",
            )
        if known is not None and not asked.secret:
            kept = msgspec.structs.replace(
                endpoint, secrets=known.secrets, created_ms=known.created_ms
            )
            return self._added(kept, "", from_start=asked.from_start)
        reference, secret = self._secret(asked.name, asked.secret, asked.algorithm)
        secured = msgspec.structs.replace(endpoint, secrets=(SigningSecret(reference),))
        try:
            return self._added(secured, secret, from_start=asked.from_start)
        except MainstemError:
            self._service.secrets.delete(reference, asked.name)
            raise

    @operation(REMOVE, "DELETE webhooks/{name}")
    def remove(self, peer: Peer, asked: NameEndpoint) -> None:
        """Remove an endpoint; events that wait for it are not delivered."""
        self._authorize(peer, Action.ALTER)
        self._context.from_thread(lambda: self._endpoints.remove(asked.name)).wait()

    @operation(PAUSE, "POST webhooks/{name}/pause")
    def pause(self, peer: Peer, asked: NameEndpoint) -> EndpointInfo:
        """Stop delivering to an endpoint; its events wait."""
        self._authorize(peer, Action.ALTER)
        durable = self._context.from_thread(
            lambda: self._endpoints.pause(asked.name, "by an operator")
        )
        durable.wait()
        return self.show(peer, asked)

    @operation(RESUME, "POST webhooks/{name}/resume")
    def resume(self, peer: Peer, asked: NameEndpoint) -> EndpointInfo:
        """Deliver to a paused or disabled endpoint again."""
        self._authorize(peer, Action.ALTER)
        self._context.from_thread(lambda: self._endpoints.resume(asked.name)).wait()
        return self.show(peer, asked)

    @operation(ROTATE, "POST webhooks/{name}/rotate")
    def rotate(self, peer: Peer, asked: RotateSecret) -> Secured:
        """Replace the secret of an endpoint."""
        self._authorize(peer, Action.ALTER)
        if not 0 <= asked.overlap_ms <= 365 * DAY:
            raise InvalidSetting(f"overlap_ms must be from 0 to {365 * DAY}")
        now_ms = self._context.now_ms()
        endpoint = self._context.from_thread(lambda: self._endpoints.get(asked.name))
        reference, secret = self._secret(asked.name, asked.secret, asked.algorithm)
        until_ms = now_ms + asked.overlap_ms
        before = [
            SigningSecret(it.reference, min(until_ms, it.until_ms or until_ms))
            for it in endpoint.secrets
            if it.until_ms is None or it.until_ms > now_ms
        ]
        if not asked.overlap_ms:
            before = []
        changed = msgspec.structs.replace(endpoint, secrets=(SigningSecret(reference), *before))
        done = self._added(changed, secret, from_start=False)
        for each in endpoint.secrets:
            if each.reference not in {it.reference for it in changed.secrets}:
                self._service.secrets.delete(each.reference, asked.name)
        return done

    @operation(TEST, "POST webhooks/{name}/test")
    def test(self, peer: Peer, asked: NameEndpoint) -> Tested:
        """Send a test message to an endpoint; return the receiver's answer."""
        self._authorize(peer, Action.ALTER)
        answered = Future[tuple[Answer, int]]()
        service = self._service

        def send() -> tuple[str, int]:
            endpoint = self._endpoints.get(asked.name)
            now_ms, began_ms = self._context.now_ms(), service.clock_ms()
            signing = Signing(endpoint, service.secrets, now_ms)
            message_id = f"msg_test_{now_ms}"
            body = {"type": "webhook.test", "id": message_id, "endpoint": endpoint.name}
            made = Message(message_id, JSON, msgspec.json.encode(body))
            request = signed_request(service, endpoint, URL(endpoint.url), signing, made)
            service.client.send(
                request, lambda it: answered.set_result((it, service.clock_ms() - began_ms))
            )
            return message_id, endpoint.timeout_ms

        message_id, timeout_ms = self._context.from_thread(send)
        try:
            answer, took_ms = answered.result(timeout_ms / 1000 + 5)
        except OutOfTime:
            raise OperationFailed(Failure.UNAVAILABLE, "the server is stopping") from None
        return Tested(message_id, answer.status, answer.error, took_ms)

    @operation(REPLAY, "POST webhooks/{name}/replay")
    def replay(self, peer: Peer, asked: ReplayEvents) -> Replayed:
        """Deliver events again: one by its message id, or a range of offsets of a partition."""
        self._authorize(peer, Action.ALTER)
        endpoint = self._context.from_thread(lambda: self._endpoints.get(asked.name))
        topic, partition, first, end = self._range(asked)
        self._context.auth.authorize(
            peer.principal, Action.READ, Resource(ResourceKind.TOPIC, topic)
        )
        ranges = {partition: (first, end)}
        replay, durable = self._context.from_thread(
            lambda: self._endpoints.replays.add(
                endpoint.name, topic, ranges, queue_settings(endpoint)
            )
        )
        durable.wait()
        return Replayed(replay.id, end - first)

    def _range(self, asked: ReplayEvents) -> tuple[str, int, int, int]:
        """Return topic, partition, first offset and end (exclusive); raises InvalidSetting."""
        broker = self._context.broker
        topic, partition, first, last = asked.topic, asked.partition, asked.first, asked.last
        if asked.id:
            found = parse_message_id(asked.id)
            known = None if found is None else broker.topic_by_id(found[0])
            if found is None or known is None:
                raise InvalidSetting(
                    f"{asked.id!r:.100} is not the id of a message about one event of a topic; "
                    "give the id of an attempt, or --topic and a range"
                )
            topic, (partition, first) = known.name, found[1]
            last = first
        if not topic:
            raise InvalidSetting("a replay needs an id, or a topic and a range")
        bounds = broker.bounds(topic, partition)
        start = bounds.start if first is None else first
        end = bounds.tail if last is None else last + 1
        if not bounds.start <= start < end <= bounds.tail:
            raise InvalidSetting(
                f"{topic}[{partition}] has the offsets {bounds.start} to {bounds.tail - 1}, not "
                f"{start} to {end - 1}"
            )
        return topic, partition, start, end

    def _secret(self, name: str, reference: str, algorithm: str) -> tuple[str, str]:
        """Return a secret's reference, and the secret if a new one was generated to be shown.

        ``reference``: empty to generate a secret.
        """
        if reference:
            return reference, ""
        if algorithm not in _KINDS:
            raise InvalidSetting(f"algorithm must be {' or '.join(_KINDS)}, not {algorithm!r:.50}")
        generated, secret = self._service.secrets.generate(name, _KINDS[algorithm])
        # Receivers verify ed25519 with the public key, so nobody needs the private one.
        return generated, secret if algorithm == "hmac" else ""

    def _added(self, endpoint: Endpoint, secret: str, *, from_start: bool) -> Secured:
        durable = self._context.from_thread(
            lambda: self._endpoints.add(endpoint, from_start=from_start)
        )
        durable.wait()
        info = self._context.from_thread(lambda: self._info(self._endpoints.get(endpoint.name)))
        return Secured(info, secret)

    def _info(self, endpoint: Endpoint) -> EndpointInfo:
        state = self._endpoints.state(endpoint.name)
        queues = [self._context.broker.queues.show(*it) for it in self._endpoints.queues(endpoint)]
        try:
            signing = Signing(endpoint, self._service.secrets, self._context.now_ms())
            public_keys = signing.public_keys
        except MainstemError:
            # The endpoint's status has the reason.
            public_keys = []
        return EndpointInfo(
            name=endpoint.name,
            url=endpoint.url,
            topics=endpoint.topics,
            status=state.status,
            reason=state.reason,
            since_ms=state.since_ms,
            failing_since_ms=state.failing_since_ms,
            waiting=sum(window.unsettled for it in queues for window in it.windows),
            in_flight=sum(window.out for it in queues for window in it.windows),
            filters=endpoint.filters,
            order=endpoint.order,
            payload=endpoint.payload,
            secrets=endpoint.secrets,
            public_keys=tuple(public_keys),
            retries_ms=endpoint.retries_ms,
            jitter=endpoint.jitter,
            timeout_ms=endpoint.timeout_ms,
            max_in_flight=endpoint.max_in_flight,
            max_per_s=endpoint.max_per_s,
            batch=endpoint.batch,
            pause_after_ms=endpoint.pause_after_ms,
            replays=tuple(each.id for each in self._endpoints.replays.of(endpoint.name)),
        )

    def _authorize(self, peer: Peer, action: Action) -> None:
        self._context.auth.authorize(peer.principal, action, CLUSTER)
