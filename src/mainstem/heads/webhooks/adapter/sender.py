"""Sends the events of one endpoint's queues, and settles them by the receiver's answers.

How this works: the dispatcher calls ``_take`` when a queue has events. It acquires as many as
``Flow`` has room for; the others stay in the queue. Settlements go to ``Outcomes``. With order
``endpoint`` an event that fails is not returned to the queue but kept here until its retry, so that
no later one overtakes it; after a restart its attempts are counted from 1 again.

A sender that is closed sends nothing more: answers to earlier requests are still handled, and
events that were not delivered go back to the queue.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from yarl import URL

from mainstem.broker.door import Delivery, Outcome, Settlement
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.heads.queue_consumer import settlement
from mainstem.heads.webhooks.adapter.attempts import Attempt
from mainstem.heads.webhooks.adapter.flow import Flow
from mainstem.heads.webhooks.client import Request
from mainstem.heads.webhooks.endpoints import Endpoint, Order
from mainstem.heads.webhooks.filters import Filter
from mainstem.heads.webhooks.payloads import Message, message, message_id
from mainstem.heads.webhooks.schedule import GONE, Answer, Decision, Verdict, decide
from mainstem.heads.webhooks.signatures import signature_header, signed_content
from mainstem.heads.webhooks.templates import Template

if TYPE_CHECKING:
    from mainstem.heads.dispatcher import Consumer
    from mainstem.heads.webhooks.adapter.service import Service
    from mainstem.heads.webhooks.adapter.signing import Signing

MAX_BYTES = 1024 * 1024
Queue = tuple[str, str]
"""Topic and name of a queue."""
Call = Callable[[], None]
Wanted = Callable[[Event], bool]
_ACTIONS = {
    Verdict.DELIVERED: Outcome.ACK,
    Verdict.RETRY: Outcome.NACK,
    Verdict.DEAD: Outcome.REJECT,
    Verdict.GONE: Outcome.RELEASE,
}


class Sender:
    """Delivers the events of one endpoint; only the event loop may call it."""

    def __init__(
        self,
        service: "Service",
        endpoint: Endpoint,
        signing: "Signing",
        answered: Callable[[Answer], None],
        queue_gone: Callable[[Queue, MainstemError], None],
    ) -> None:
        """``answered``: called with each answer. ``queue_gone``: called if a queue is deleted."""
        self._service, self._endpoint, self._signing = service, endpoint, signing
        self._answered, self._queue_gone = answered, queue_gone
        self._owner = f"webhooks-{endpoint.name}"
        self._url = URL(endpoint.url)
        self._filter = Filter(endpoint.filters)
        self._template = Template(endpoint.template) if endpoint.template else None
        self._flow = Flow(endpoint)
        self._consumers: dict[Queue, Consumer] = {}
        self._is_waking = self.is_closed = False
        self._under_way = 0
        self._when_idle: Call | None = None
        self._retry: tuple[Call, Call] | None = None
        """Order ``endpoint``: functions that send the kept event again, and that release it."""

    # Queues

    def consume(
        self, queue: Queue, wanted: Wanted | None = None, settled: Call | None = None
    ) -> None:
        """Deliver the events of a queue.

        ``wanted``: tells which events are sent, by default those that pass the endpoint's filter;
        others are acknowledged. ``settled``: called after each append of settlements.
        """
        if self.is_closed or queue in self._consumers:
            return
        topic_id = self._service.context.broker.topic(queue[0]).id
        take = partial(self._take, queue, topic_id, wanted or self._filter.passes, settled)
        self._consumers[queue] = self._service.context.dispatcher.consume(
            *queue, take, gone=partial(self._end, queue), credit=None
        )

    def drop(self, queue: Queue) -> None:
        """Stop delivering events of a queue."""
        if (consumer := self._consumers.pop(queue, None)) is not None:
            consumer.close()

    def close(self) -> None:
        """Send nothing more; events of failed or waiting requests go back to the queues."""
        self.is_closed = True
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()
        if self._retry is not None:
            (_, release), self._retry = self._retry, None
            release()

    def when_idle(self, call: Call) -> bool:
        """Call ``call`` after the last request in flight; return False if there is none."""
        if not self._under_way:
            return False
        self._when_idle = call
        return True

    def leave(self, queues: Iterable[Queue]) -> None:
        """Return the deliveries of aborted requests to these queues."""
        for topic, name in queues:
            with suppress(MainstemError):
                self._service.context.broker.queues.leave(topic, name, self._owner)

    def _end(self, queue: Queue, error: MainstemError) -> None:
        if self._consumers.pop(queue, None) is not None:
            self._queue_gone(queue, error)

    # Sending

    def _take(
        self, queue: Queue, topic_id: str, wanted: Wanted, settled: Call | None, limit: int
    ) -> int:
        service, batch = self._service, self._endpoint.batch
        room = self._room()
        if room <= 0:
            self._pause()
            return 0
        taken = service.context.broker.queues.acquire(
            *queue,
            self._owner,
            max_events=min(limit, room * batch),
            max_bytes=MAX_BYTES,
            locked=False,
        )
        if not taken and settled is not None:
            settled()
        sent = [each for each in taken if wanted(each.event)]
        if len(sent) < len(taken):
            service.counts.filtered += len(taken) - len(sent)
            left_out = [settlement(each) for each in taken if not wanted(each.event)]
            service.outcomes.add(queue, self._owner, left_out, then=settled)
        for first in range(0, len(sent), batch):
            self._flow.sent()
            self._send(queue, topic_id, sent[first : first + batch], settled)
        return len(taken)

    def _room(self) -> int:
        service = self._service
        room = self._flow.room(service.clock_ms())
        most = service.settings.max_requests - service.counts.in_flight
        # An endpoint may always have one request in flight, so that others cannot block it.
        return min(room, max(most, 1 - self._flow.busy))

    def _send(
        self,
        queue: Queue,
        topic_id: str,
        deliveries: Sequence[Delivery],
        settled: Call | None,
        attempt: int | None = None,
    ) -> None:
        """Send events in a request; ``attempt``: its number, None for the deliveries' count."""
        service, endpoint = self._service, self._endpoint
        made = message(
            endpoint.payload,
            topic_id,
            [each.event for each in deliveries],
            batch=endpoint.batch > 1,
            template=self._template,
        )
        began_ms = service.clock_ms()

        def done(answer: Answer) -> None:
            service.counts.in_flight -= 1
            took_ms = service.clock_ms() - began_ms
            self._under_way -= 1
            self._done(queue, topic_id, deliveries, settled, attempt, answer, took_ms)
            if self._when_idle is not None and not self._under_way:
                self._when_idle()

        service.counts.in_flight += 1
        self._under_way += 1
        service.client.send(self._request(made), done)

    def _request(self, made: Message) -> Request:
        return signed_request(self._service, self._endpoint, self._url, self._signing, made)

    def _done(
        self,
        queue: Queue,
        topic_id: str,
        deliveries: Sequence[Delivery],
        settled: Call | None,
        attempt: int | None,
        answer: Answer,
        took_ms: int,
    ) -> None:
        """Settle or keep each event of a request that has ended, and log the attempts."""
        service, now_ms = self._service, self._service.clock_ms()
        counts = [attempt or each.count for each in deliveries]
        decisions = [decide(self._endpoint, answer, each, service.chance) for each in counts]
        attempts = [
            self._attempt(topic_id, each.event, count, answer, decision, took_ms)
            for each, count, decision in zip(deliveries, counts, decisions, strict=True)
        ]
        for decision in decisions:
            service.counts.attempts[decision.verdict] += 1
        is_kept = (
            self._endpoint.order is Order.ENDPOINT
            and decisions[0].verdict is Verdict.RETRY
            and not self.is_closed
        )
        if is_kept:
            self._keep(queue, topic_id, deliveries, settled, counts[0], answer, decisions[0])
            service.outcomes.add(queue, self._owner, (), attempts)
        else:
            self._flow.answered(answer, now_ms)
            found = [
                self._settlement(each, decision, answer)
                for each, decision in zip(deliveries, decisions, strict=True)
            ]
            service.outcomes.add(queue, self._owner, found, attempts, settled)
            if self._endpoint.order is not Order.PARALLEL:
                # The queue has no next event of the order before this one is settled.
                service.outcomes.flush_soon()
        # 410 Gone disables the endpoint even if it was paused meanwhile.
        if not self.is_closed or answer.status == GONE:
            self._answered(answer)
        if not self.is_closed:
            self._wake()

    def _settlement(self, delivery: Delivery, decision: Decision, answer: Answer) -> Settlement:
        found = settlement(delivery, _ACTIONS[decision.verdict])
        if decision.verdict is Verdict.DELIVERED:
            return found
        if self.is_closed and decision.verdict is Verdict.RETRY:
            return found._replace(outcome=Outcome.RELEASE)
        reason = f"{answer.text} from {self._url.host}"
        return found._replace(delay_ms=decision.delay_ms, reason=reason)

    def _attempt(
        self,
        topic_id: str,
        event: Event,
        count: int,
        answer: Answer,
        decision: Decision,
        took_ms: int,
    ) -> Attempt:
        is_retry = decision.verdict is Verdict.RETRY
        return Attempt(
            endpoint=self._endpoint.name,
            id=message_id(topic_id, event.position),
            topic=event.topic,
            partition=event.partition,
            offset=event.offset,
            attempt=count,
            at_ms=self._service.context.now_ms(),
            took_ms=took_ms,
            verdict=decision.verdict,
            status=answer.status,
            error=answer.error,
            retry_ms=decision.delay_ms if is_retry else None,
        )

    def _keep(
        self,
        queue: Queue,
        topic_id: str,
        deliveries: Sequence[Delivery],
        settled: Call | None,
        count: int,
        answer: Answer,
        decision: Decision,
    ) -> None:
        """Keep an event that failed, and send it again after its delay."""
        service = self._service

        def again() -> None:
            self._retry = None
            timer.cancel()
            self._send(queue, topic_id, deliveries, settled, count + 1)

        def release() -> None:
            timer.cancel()
            back = [settlement(each, Outcome.RELEASE) for each in deliveries]
            service.outcomes.add(queue, self._owner, back)

        self._retry = (again, release)
        delay_ms = max(decision.delay_ms, answer.hold_ms)
        timer = service.context.after(delay_ms, again)

    # Waiting

    def _pause(self) -> None:
        """Pause the consumers until ``Flow`` allows a request, or a request in flight ends."""
        for consumer in self._consumers.values():
            consumer.pause()
        wait_ms = self._flow.wait_ms(self._service.clock_ms())
        # Without a time, requests are in flight, and their answers wake the consumers.
        if wait_ms and not self._is_waking:
            self._is_waking = True
            self._service.context.after(wait_ms, self._wake_by_time)

    def _wake_by_time(self) -> None:
        self._is_waking = False
        self._wake()

    def _wake(self) -> None:
        for consumer in list(self._consumers.values()):
            consumer.resume()


def signed_request(
    service: "Service", endpoint: Endpoint, url: URL, signing: "Signing", made: Message
) -> Request:
    """Return the HTTP request for a message, signed with the secrets that are valid now."""
    now_ms = service.context.now_ms()
    headers = dict(made.headers)
    headers["Content-Type"] = made.content_type
    headers["webhook-id"] = made.id
    headers["webhook-timestamp"] = str(now_ms // 1000)
    signers = signing.signers(now_ms)
    if signers:
        content = signed_content(made.id, now_ms // 1000, made.body)
        headers["webhook-signature"] = signature_header(signers, content)
    return Request(url, headers, made.body, endpoint.timeout_ms)
