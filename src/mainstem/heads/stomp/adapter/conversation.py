"""One STOMP client: its requests carried out on the broker, and answered.

How this works: ACKs that come together are appended together, at the end of the turn; a COMMIT is
one append. Whoever goes, for whatever reason, gives back what it has not settled.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mainstem.broker.door import Held, Outcome, QueueSettlements, Settlement
from mainstem.core.errors import MainstemError, Unsupported
from mainstem.core.event import Event
from mainstem.heads.conversation import Answer, Later, Outbox
from mainstem.heads.parked import Parked
from mainstem.heads.stomp.adapter.consumers import (
    Consumer,
    Deliveries,
    Given,
    QueueConsumer,
    TopicConsumer,
)
from mainstem.heads.stomp.adapter.destinations import (
    BadDestination,
    Destination,
    Kind,
    durable_name,
    is_durable,
    parse,
)
from mainstem.heads.stomp.adapter.errors import refusal
from mainstem.heads.stomp.adapter.messages import event_of, unsupported
from mainstem.heads.stomp.adapter.places import Places
from mainstem.heads.stomp.adapter.receipts import Receipts
from mainstem.heads.stomp.adapter.service import Service
from mainstem.heads.stomp.session import (
    Abort,
    AckMode,
    Begin,
    Commit,
    Connect,
    Disconnect,
    Refused,
    Request,
    Send,
    Session,
    Settle,
    Subscribe,
    Unsubscribe,
)

_logger = logging.getLogger("mainstem.heads.stomp")

SERVER = "mainstem"
LOOK_MS = 5_000
"""How often it is looked whether followed topics have got more partitions."""
_PREFETCHES = ("prefetch-count", "activemq.prefetchSize")
_PRIORITIES = ("x-priority", "activemq.priority")
_UNLIMITED = 1_000_000

Entry = tuple[str, Sequence[Event]]


class StompConversation:
    """One client's frames."""

    def __init__(self, service: Service, outbox: Outbox) -> None:
        self._service = service
        self._context = service.context
        self._broker = service.context.broker
        self._counts = service.counts
        self._outbox = outbox
        self._session = Session(service.limits, service.clock_ms())
        self._session_id = service.new_session_id()
        self._deliveries = Deliveries(
            self._context, outbox, self._session, self._session_id, self._counts, service.clock_ms
        )
        self._receipts = Receipts(self._context, self._session, self._fail)
        self._places = Places(
            self._context,
            self._session_id,
            service.settings.max_subscriptions,
            self._receipts.not_before,
        )
        self._client_id: str | None = None
        self._consumers: dict[str, Consumer] = {}
        self._former: list[QueueConsumer] = []
        """Unsubscribed, with messages that the client may still settle."""
        self._acks: dict[QueueConsumer, list[Settlement]] = {}
        self._waiting: set[Callable[[], None]] = set()
        self._next_look_ms: int | None = None
        self._is_closed = False

    # Called by the transport

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of a frame once it can be told."""
        try:
            return self._session.frame_size(view)
        except Refused as error:
            raise self._told(error) from None

    def handle(self, frame: memoryview) -> Answer | Later:
        """Carry out what a frame asks for."""
        try:
            request = self._session.receive(frame)
            if request is None:
                return ()
            self._counts.frames[request.command] += 1
            for each in request.requests if isinstance(request, Commit | Abort) else ():
                self._counts.frames[each.command] += 1
            answer = self._carry_out(request)
        except (Refused, BadDestination, MainstemError) as error:
            raise self._told(error) from error
        if answer and not isinstance(answer, Later):
            self._session.sent_ms = self._service.clock_ms()
        return answer

    def deadline(self) -> int | None:
        """Return when something is due: heart-beats, or messages that are still worked on."""
        self._session.heard_ms = self._outbox.heard_ms
        due_ms = self._session.deadline()
        if self._next_look_ms is None and self._consumers:
            locks = [each.lock_ms() for each in self._queue_consumers()]
            soonest = min([LOOK_MS, *(each // 3 for each in locks if each is not None)])
            self._next_look_ms = self._service.clock_ms() + soonest
        if due_ms is None or self._next_look_ms is None:
            return self._next_look_ms if due_ms is None else due_ms
        return min(due_ms, self._next_look_ms)

    def tick(self, now_ms: int) -> Answer:
        """Do what is due."""
        self._session.heard_ms = self._outbox.heard_ms
        try:
            beat = self._session.tick(now_ms)
            if self._next_look_ms is not None and now_ms >= self._next_look_ms:
                self._next_look_ms = None
                for consumer in self._queue_consumers():
                    consumer.renew()
                for each in list(self._consumers.values()):
                    if isinstance(each, TopicConsumer):
                        each.look()
        except (Refused, MainstemError) as error:
            raise self._told(error) from error
        return (beat,) if beat else ()

    def drain(self) -> Answer:
        """Say that the server stops."""
        error = self._session.refused("Server is stopping", "connect again soon\n")
        return (error.farewell,)

    def stop_waiting(self) -> None:
        """Try for the last time what waits for room in a topic."""
        for give_up in list(self._waiting):
            give_up()

    def close(self) -> None:
        """Give back what the client has not settled, and forget what was its own."""
        self._is_closed = True
        self.stop_waiting()
        self._counts.subscriptions -= len(self._consumers)
        for consumer in self._consumers.values():
            consumer.close()
        errors: list[MainstemError] = []
        for call in (self._append_acks, *(each.leave for each in self._queue_consumers())):
            try:
                call()
            except MainstemError as error:
                errors.append(error)
        for failed in (*errors, *self._places.forget()):
            _logger.warning("after %s has gone: %s", self._outbox.peer, failed)

    def _queue_consumers(self) -> list[QueueConsumer]:
        found = [each for each in self._consumers.values() if isinstance(each, QueueConsumer)]
        return [*found, *self._former]

    # Requests

    def _carry_out(self, request: Request) -> Answer | Later:  # noqa: PLR0911 - one for each
        match request:
            case Send():
                return self._publish([self._entry(request)], (), [request.receipt])
            case Settle():
                return self._settle(request)
            case Subscribe():
                return self._subscribe(request)
            case Unsubscribe():
                return self._unsubscribe(request)
            case Commit():
                return self._commit(request)
            case Abort():
                # The receipts of what was not done are owed, too: it has been dealt with.
                receipts = [each.receipt for each in request.requests]
                return self._receipts.confirm([*receipts, request.receipt])
            case Begin():
                return self._receipts.confirm([request.receipt])
            case Connect():
                self._client_id = request.client_id
                return (self._session.connected(self._session_id, SERVER),)
            case Disconnect():
                return self._disconnect(request)

    def _disconnect(self, request: Disconnect) -> Later:
        self._append_acks()
        later = Later()
        # Nothing may follow [DISCONNECT].
        later.hold()

        def end() -> None:
            later.settle(self._receipts.frames([request.receipt]))
            self._outbox.end()

        self._receipts.when_durable(end)
        return later

    # SEND and COMMIT

    def _entry(self, request: Send) -> Entry:
        if (header := unsupported("SEND", request.headers)) is not None:
            raise Unsupported(f"the header {header!r} asks for what is not done here")
        topic = self._places.to_send(parse(request.destination))
        reply_to = request.headers.get("reply-to", "")
        if reply_to.startswith(f"/{Kind.TEMPORARY}/"):
            key = f"id {reply_to}"
            if key not in self._consumers:
                found = self._places.to_subscribe(parse(reply_to), "")
                self._consume(Subscribe(key, reply_to, reply_to, AckMode.AUTO, {}, None), found)
            request.headers["reply-to"] = self._places.reply_queue(reply_to)
        return topic, (event_of(request),)

    def _commit(self, request: Commit) -> Answer | Later:
        self._append_acks()
        entries: list[Entry] = []
        settled: list[QueueSettlements] = []
        after: list[Callable[[], None]] = []
        for each in request.requests:
            if isinstance(each, Send):
                entries.append(self._entry(each))
                continue
            consumer, given = self._taken_out(each)
            if isinstance(consumer, QueueConsumer):
                settled.append(consumer.settlements(given, self._outcome(each)))
                after.append(partial(consumer.add_credit, len(given)))
            else:
                after.append(partial(self._settle_followed, consumer, each, given))
        receipts = [*(each.receipt for each in request.requests), request.receipt]
        return self._publish(entries, settled, receipts, after)

    def _publish(
        self,
        entries: Sequence[Entry],
        settled: Sequence[QueueSettlements],
        receipts: Sequence[str | None],
        after: Sequence[Callable[[], None]] = (),
        held: Held | None = None,
        later: Later | None = None,
    ) -> Answer | Later:
        found = self._broker.publish_all(entries, settled, held)
        if isinstance(found, Held):
            waits = later or Later()
            # What comes behind would overtake it.
            waits.hold()
            again = partial(self._publish, entries, settled, receipts, after, later=waits)
            self._wait_for_room(found, waits, again)
            return waits
        self._receipts.not_before(found.durable)
        for call in after:
            call()
        return self._receipts.confirm(receipts, later)

    def _wait_for_room(
        self, held: Held, later: Later, again: Callable[[Held], Answer | Later]
    ) -> None:
        """Try again once there is room, and for the last time when the wait is over."""

        def retry(held: Held) -> None:
            parked.end()
            try:
                again(held)
            except MainstemError as error:
                later.fail(self._told(error))

        last = held._replace(until_ms=0)
        wait_ms = max(0, held.until_ms - self._context.now_ms())
        parked = Parked(
            self._context, self._waiting, wait_ms, lambda _: retry(last), lambda: retry(held)
        )
        held.room.then(lambda _: parked.wake())

    # ACK and NACK

    def _settle(self, request: Settle) -> Answer | Later:
        consumer, given = self._taken_out(request)
        if isinstance(consumer, TopicConsumer):
            self._settle_followed(consumer, request, given)
            return self._receipts.confirm([request.receipt])
        if not self._acks:
            self._context.on_loop(self._append_acks_or_end)
        said = consumer.settlements(given, self._outcome(request)).settlements
        self._acks.setdefault(consumer, []).extend(said)
        if request.receipt is not None:
            self._append_acks()
        return self._receipts.confirm([request.receipt])

    def _settle_followed(
        self, consumer: TopicConsumer, request: Settle, given: Sequence[Given]
    ) -> None:
        if not request.accepted and self._requeues(request):
            consumer.give_back(given)
        else:
            consumer.add_credit(len(given))

    def _taken_out(self, request: Settle) -> tuple[Consumer, list[Given]]:
        found = self._deliveries.settle(request.message_id)
        if found is None:
            text = f"no message {request.message_id!r:.200} is to be acknowledged by this session\n"
            raise self._session.refused("Message not found", text, request.receipt)
        return found

    def _requeues(self, request: Settle) -> bool:
        return self._service.settings.nack_requeue if request.requeue is None else request.requeue

    def _outcome(self, request: Settle) -> Outcome:
        if request.accepted:
            return Outcome.ACK
        return Outcome.NACK if self._requeues(request) else Outcome.REJECT

    def _append_acks(self) -> None:
        """Append what was acknowledged in this turn."""
        acks, self._acks = self._acks, {}
        for consumer, said in acks.items():
            asked = consumer.settlements((), Outcome.ACK)._replace(settlements=said)
            found = self._broker.queues.settle(*asked)
            self._receipts.not_before(found.durable)
            for error in found.refused.values():
                raise error
            consumer.add_credit(len(said))

    def _append_acks_or_end(self) -> None:
        try:
            self._append_acks()
        except MainstemError as error:
            self._fail(error)

    # SUBSCRIBE and UNSUBSCRIBE

    def _subscribe(self, request: Subscribe) -> Later:
        if (header := unsupported("SUBSCRIBE", request.headers)) is not None:
            raise Unsupported(f"the header {header!r} asks for what is not done here")
        later = Later()
        later.hold()
        # It begins behind what this client sent before, which is not at the tail until then.
        self._step(later, partial(self._find, request, later))
        return later

    def _find(self, request: Subscribe, later: Later) -> None:
        durable = durable_name(request.headers, request.id, self._client_id)
        destination = self._places.to_subscribe(parse(request.destination), durable)
        self._step(later, partial(self._begin, request, destination, later))

    def _begin(self, request: Subscribe, destination: Destination, later: Later) -> None:
        # Its receipt comes before its messages.
        later.settle(self._receipts.frames([request.receipt]))
        self._consume(request, destination)

    def _step(self, later: Later, call: Callable[[], None]) -> None:
        """Go on with a request once all before is durable; an error is its answer."""

        def carry_out() -> None:
            try:
                if not self._is_closed:
                    call()
            except (BadDestination, MainstemError) as error:
                later.fail(self._told(error))

        self._receipts.when_durable(carry_out)

    def _consume(self, request: Subscribe, destination: Destination) -> None:
        prefetch = _number(request.headers, _PREFETCHES, self._service.settings.prefetch)
        # RabbitMQ's 0 is no limit; what a queue hands out at once is limited anyway.
        credit, priority = prefetch or _UNLIMITED, _number(request.headers, _PRIORITIES, 0)
        consumer: Consumer
        if destination.queue:
            consumer = QueueConsumer(
                self._deliveries,
                request,
                destination,
                self._gone,
                credit=credit,
                priority=priority,
            )
        else:
            consumer = TopicConsumer(
                self._deliveries,
                request,
                destination,
                self._gone,
                credit=credit,
                from_start=destination.kind is Kind.TEMPORARY,
            )
        self._counts.subscriptions += 1
        self._consumers[request.key] = consumer

    def _unsubscribe(self, request: Unsubscribe) -> Answer | Later:
        self._append_acks()
        consumer = self._consumers.pop(request.subscription.key)
        self._counts.subscriptions -= 1
        consumer.close()
        if isinstance(consumer, QueueConsumer):
            if consumer.destination.kind is Kind.TOPIC and is_durable(request.headers):
                self._places.delete(consumer.destination)
            elif consumer.unsettled:
                self._former.append(consumer)
        return self._receipts.confirm([request.receipt])

    def _gone(self, consumer: Consumer, error: MainstemError) -> None:
        """End, as a queue or topic was deleted, or cannot be read."""
        shown: Destination = consumer.destination
        text = f"no more messages of {shown.shown!r:.200}: {error}\n"
        self._end(self._session.refused("Server cancelled subscription", text))

    # Refusals

    def _told(self, error: Refused | BadDestination | MainstemError) -> Refused:
        """Return what the client is told, and count it."""
        if isinstance(error, BadDestination):
            error = self._session.refused(error.summary, error.detail)
        elif isinstance(error, MainstemError):
            error = refusal(self._session, error)
        self._counts.errors[error.summary] += 1
        return error

    def _fail(self, error: MainstemError) -> None:
        """End, as something that the client takes for done was not."""
        self._end(refusal(self._session, error))

    def _end(self, error: Refused) -> None:
        self._outbox.end((self._told(error).farewell,), str(error))


def _number(headers: Mapping[str, str], names: Sequence[str], default: int) -> int:
    for name in names:
        if name in headers:
            text = headers[name].strip()
            if not text.isdecimal() or len(text) > 9:
                raise BadDestination("Invalid header", f"{name!r} is no number: {text!r:.50}")
            return int(text)
    return default
