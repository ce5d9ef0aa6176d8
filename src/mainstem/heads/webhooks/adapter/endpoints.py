"""All endpoints: their definitions, their queues, and the senders of those that are active.

How this works: the definition and the status of an endpoint are stored apart, as the head changes
the status. Each endpoint has one queue on each of its topics, also while it is paused, so that
events wait for it. If its topics are a pattern, a topic that is created later gets a queue that
begins with the topic's first event. Only the event loop calls this module, which never blocks:
callers wait for the returned ``Durable``.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from mainstem.broker.door import AT_ONCE, Durable, Order, QueueSettings
from mainstem.core.errors import Failure, InvalidSetting, MainstemError, UnknownTopic
from mainstem.core.names import is_pattern
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.webhooks.adapter.replays import Replay, Replays
from mainstem.heads.webhooks.adapter.sender import Queue, Sender
from mainstem.heads.webhooks.adapter.signing import Signing
from mainstem.heads.webhooks.endpoints import Endpoint, EndpointState, Status
from mainstem.heads.webhooks.endpoints import Order as EndpointOrder
from mainstem.heads.webhooks.schedule import GONE, Answer

if TYPE_CHECKING:
    from mainstem.heads.webhooks.adapter.service import Service

_logger = logging.getLogger("mainstem.heads.webhooks")

ENDPOINT, STATE = "endpoint", "state"
"""The kinds of the stored definitions."""
FAILING_MS = 60_000
"""An endpoint that has failed for this time is stored as failing, so that the time goes on after a
restart.
"""

_ACTIVE = EndpointState()


def queue_of(endpoint: str) -> str:
    """Return the name that an endpoint's queues have on all its topics."""
    return f"webhook.{endpoint}"


class Endpoints:
    """The endpoints of a node; only the event loop may call it."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._broker = service.context.broker
        self._definitions = service.definitions
        self._endpoints: dict[str, Endpoint] = {}
        self._states: dict[str, EndpointState] = {}
        self._senders: dict[str, Sender] = {}
        self._leaving: set[str] = set()
        """Endpoints with order ``endpoint`` whose new sender waits for the last request of the old
        one.
        """
        self._failing: dict[str, int] = {}
        """The time since which each failing endpoint has failed, in ms since 1970."""
        self._unwatch: Callable[[], None] = _nothing
        self._is_due = self._is_closed = False
        self.replays = Replays(service, self._start_replay)

    def start(self) -> None:
        """Start the senders of all active endpoints."""
        read, read_state = msgspec.json.Decoder(Endpoint), msgspec.json.Decoder(EndpointState)
        for name, value in self._definitions.items(ENDPOINT).items():
            self._endpoints[name] = read.decode(value)
        for name, value in self._definitions.items(STATE).items():
            if name in self._endpoints:
                state = self._states[name] = read_state.decode(value)
                if state.failing_since_ms is not None:
                    self._failing[name] = state.failing_since_ms
        self._watch_topics()
        for endpoint in self._endpoints.values():
            self._add_queues(endpoint)
            self._start(endpoint)
        self._count()

    def close(self) -> None:
        """Stop all senders; answers to requests that were sent before are still handled."""
        self._is_closed = True
        self._unwatch()
        for sender in self._senders.values():
            sender.close()
        self._service.outcomes.flush()

    def leave(self) -> None:
        """Return unsettled deliveries of aborted requests to their queues."""
        self._service.outcomes.flush()
        for name, sender in self._senders.items():
            sender.leave([*self.queues(self._endpoints[name]), *self.replays.queues(name)])

    # Lookup

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(sorted(self._endpoints.values(), key=lambda each: each.name))

    def get(self, name: str) -> Endpoint:
        """Return an endpoint; raises OperationFailed."""
        if (found := self.find(name)) is None:
            why = f"there is no endpoint {name!r:.120}; list what exists (mainstem webhook ls)"
            raise OperationFailed(Failure.NOT_FOUND, why)
        return found

    def find(self, name: str) -> Endpoint | None:
        """Return an endpoint; None if there is none of this name."""
        return self._endpoints.get(name)

    def state(self, name: str) -> EndpointState:
        """Return the status of an endpoint, and the time since which all its attempts fail."""
        state = self._states.get(name, _ACTIVE)
        return msgspec.structs.replace(state, failing_since_ms=self._failing.get(name))

    def queues(self, endpoint: Endpoint) -> list[Queue]:
        """Return the queues of an endpoint, as topic and name, except those not created yet."""
        name = queue_of(endpoint.name)
        return [
            (topic, name)
            for topic in self._topics(endpoint)
            if self._broker.queues.settings(topic, name) is not None
        ]

    # Changes

    def add(self, endpoint: Endpoint, *, from_start: bool) -> Durable:
        """Add an endpoint, or replace the definition of one; changes nothing if it raises.

        ``from_start``: new queues begin with the first events of their topics, not at the end.
        """
        endpoint.check()
        known = self._endpoints.get(endpoint.name)
        limit = self._service.settings.max_endpoints
        if known is None and len(self._endpoints) >= limit:
            raise InvalidSetting(
                f"there are {limit} endpoints already, the limit of webhooks.max_endpoints"
            )
        # Read before anything is stored, so that a bad secret changes nothing.
        Signing(endpoint, self._service.secrets, self._service.context.now_ms())
        if not is_pattern(endpoint.topics):
            self._broker.topic(endpoint.topics)
        durable = self._definitions.set(ENDPOINT, endpoint.name, msgspec.json.encode(endpoint))
        self._endpoints[endpoint.name] = endpoint
        self._add_queues(endpoint, from_start=from_start)
        self._restart(endpoint)
        return durable

    def remove(self, name: str) -> Durable:
        """Remove an endpoint with its queues, replays and generated secrets."""
        endpoint = self.get(name)
        queues = self.queues(endpoint)
        self._stop(name)
        self.replays.remove(name)
        durable = self._definitions.change({(ENDPOINT, name): None, (STATE, name): None})
        del self._endpoints[name]
        self._states.pop(name, None)
        self._failing.pop(name, None)
        for queue in queues:
            self._delete_queue(queue)
        for secret in endpoint.secrets:
            self._service.secrets.delete(secret.reference, name)
        self._count()
        return durable

    def pause(self, name: str, reason: str) -> Durable:
        """Stop delivering to an endpoint; its events stay in its queues."""
        return self._set_status(name, Status.PAUSED, reason)

    def resume(self, name: str) -> Durable:
        """Deliver again to an endpoint that is paused or disabled."""
        self.get(name)
        self._failing.pop(name, None)
        return self._set_status(name, Status.ACTIVE, "")

    def _set_status(self, name: str, status: Status, reason: str) -> Durable:
        endpoint, was = self.get(name), self._states.get(name, _ACTIVE)
        now_ms = self._service.context.now_ms()
        state = EndpointState(status, reason, now_ms, self._failing.get(name))
        durable: Durable = AT_ONCE
        if (was.status, was.reason, was.failing_since_ms) != (
            state.status,
            state.reason,
            state.failing_since_ms,
        ):
            self._states[name] = state
            durable = self._definitions.set(STATE, name, msgspec.json.encode(state))
        if status is Status.ACTIVE:
            if name not in self._senders:
                self._start(endpoint)
        else:
            self._stop(name)
        self._count()
        return durable

    # Senders

    def _restart(self, endpoint: Endpoint) -> None:
        self._stop(endpoint.name)
        self._start(endpoint)
        self._count()

    def _start(self, endpoint: Endpoint) -> None:
        name = endpoint.name
        if self._is_closed or self.state(name).status is not Status.ACTIVE:
            return
        if name in self._leaving:
            return
        try:
            signing = Signing(endpoint, self._service.secrets, self._service.context.now_ms())
        except MainstemError as error:
            _logger.error("endpoint %s is not delivered to: %s", name, error)
            self._set_status(name, Status.PAUSED, str(error))
            return
        sender = Sender(
            self._service, endpoint, signing, partial(self._answered, endpoint), self._queue_gone
        )
        self._senders[name] = sender
        for queue in self.queues(endpoint):
            sender.consume(queue)
        for replay in self.replays.of(name):
            self._start_replay(replay)

    def _stop(self, name: str) -> None:
        if (sender := self._senders.pop(name, None)) is not None:
            sender.close()
            if self._endpoints[name].order is EndpointOrder.ENDPOINT:
                # Its events go back to the queue before the next sender can take later ones.
                self._service.outcomes.flush()
                if sender.when_idle(partial(self._left, name)):
                    self._leaving.add(name)

    def _left(self, name: str) -> None:
        """Start an endpoint's new sender, because the last request of its old one has ended."""
        self._leaving.discard(name)
        self._service.outcomes.flush()
        if name in self._endpoints and name not in self._senders:
            self._start(self._endpoints[name])
            self._count()

    def _start_replay(self, replay: Replay) -> None:
        if (sender := self._senders.get(replay.endpoint)) is not None:
            settled = partial(self.replays.settled, replay, sender.drop)
            sender.consume(replay.queue, replay.has, settled)

    def _answered(self, endpoint: Endpoint, answer: Answer) -> None:
        """Record whether an endpoint works; stop it after 410 Gone or too long a failure."""
        name = endpoint.name
        if name not in self._endpoints or self._endpoints[name].url != endpoint.url:
            return
        if answer.is_success:
            if self._failing.pop(name, None) is not None:
                self._count()
                if self._states.get(name, _ACTIVE).failing_since_ms is not None:
                    self._store(name, Status.ACTIVE)
            return
        now_ms = self._service.context.now_ms()
        if name not in self._failing:
            self._failing[name] = now_ms
            self._count()
        failed_ms = now_ms - self._failing[name]
        if answer.status == GONE:
            if self.state(name).status is Status.DISABLED:
                return
            self._give_up(name, Status.DISABLED, "the receiver answered 410 Gone")
        elif failed_ms >= self._endpoints[name].pause_after_ms:
            reason = f"every attempt of {_hours(failed_ms)} has failed, the last one: {answer.text}"
            self._give_up(name, Status.PAUSED, reason)
        elif failed_ms >= FAILING_MS and self._states.get(name, _ACTIVE).failing_since_ms is None:
            self._store(name, Status.ACTIVE)

    def _give_up(self, name: str, status: Status, reason: str) -> None:
        _logger.warning(
            "endpoint %s is %s: %s; its events wait until mainstem webhook resume %s",
            name,
            status,
            reason,
            name,
        )
        self._service.counts.stopped[status] += 1
        self._store(name, status, reason)

    def _store(self, name: str, status: Status, reason: str = "") -> None:
        """Set a status without waiting until it is durable."""
        try:
            # Written to the page cache: a disabled endpoint must not be active again after kill -9.
            self._set_status(name, status, reason).hand_over()
        except MainstemError as error:
            # The disk is full: the status is stored at the next change.
            _logger.error("the status of endpoint %s is not stored: %s", name, error)
            if status is not Status.ACTIVE:
                self._states[name] = EndpointState(status, reason)
                self._stop(name)
                self._count()

    # Topics and queues

    def _topics(self, endpoint: Endpoint) -> list[str]:
        if not is_pattern(endpoint.topics):
            return [endpoint.topics]
        found = self._broker.topics(endpoint.topics)
        return [each.name for each in found if endpoint.matches(each.name)]

    def _add_queues(self, endpoint: Endpoint, *, from_start: bool = True) -> None:
        name = queue_of(endpoint.name)
        wanted = queue_settings(endpoint)
        for topic in self._topics(endpoint):
            try:
                starts = {}
                if not from_start and self._broker.queues.settings(topic, name) is None:
                    count = len(self._broker.topic(topic).partitions)
                    starts = {at: self._broker.bounds(topic, at).tail for at in range(count)}
                if self._broker.queues.created_with(topic, name) != wanted:
                    self._broker.queues.create(topic, name, wanted, starts)
            except UnknownTopic:
                # It was deleted; if it is created again, its queue is, too.
                continue

    def _delete_queue(self, queue: Queue) -> None:
        try:
            self._broker.queues.delete(*queue)
        except MainstemError as error:
            _logger.warning("queue %s of topic %s is not deleted: %s", queue[1], queue[0], error)

    def _queue_gone(self, queue: Queue, error: MainstemError) -> None:
        _logger.warning("queue %s of topic %s is delivered no more: %s", queue[1], queue[0], error)

    def _watch_topics(self) -> None:
        context = self._service.context
        self._unwatch = self._broker.watch_topics(lambda: context.on_loop(self._topics_changed))

    def _topics_changed(self) -> None:
        """Create the queues of endpoints on new topics, and deliver from them."""
        if self._is_closed:
            return
        self._watch_topics()
        for endpoint in list(self._endpoints.values()):
            try:
                self._add_queues(endpoint)
            except MainstemError as error:
                _logger.error("endpoint %s lacks queues: %s", endpoint.name, error)
            if (sender := self._senders.get(endpoint.name)) is not None:
                for queue in self.queues(endpoint):
                    sender.consume(queue)

    def _count(self) -> None:
        counts = self._service.counts
        for status in Status:
            counts.statuses[status] = 0
        for name in self._endpoints:
            counts.statuses[self._states.get(name, _ACTIVE).status] += 1
        counts.failing = sum(name in self._senders for name in self._failing)


def queue_settings(endpoint: Endpoint) -> QueueSettings:
    """Return the settings of an endpoint's queues.

    They have no delivery limit, because the endpoint's schedule decides about dead letters.
    """
    keyed = endpoint.order is EndpointOrder.KEY
    return QueueSettings(max_deliveries=None, order=Order.KEY if keyed else Order.NONE)


def _hours(duration_ms: int) -> str:
    hours = duration_ms / 3_600_000
    return f"{hours:.0f} hours" if hours >= 2 else f"{duration_ms // 1000} seconds"


def _nothing() -> None:
    """Do nothing: the placeholder until a watch is set that can be cancelled."""
