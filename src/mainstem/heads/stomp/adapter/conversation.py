"""One STOMP client: carries out its requests on the broker, and answers them.

How this works: ACKs that arrive in one iteration of the event loop are appended together at its
end; a COMMIT is one append. When a client disconnects, for whatever reason, its unsettled messages
are released, to be redelivered.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mainstem.auth import Credentials, Peer
from mainstem.broker.door import (
    DelayedEvent,
    HeldPublish,
    Outcome,
    QueueSettlements,
    Settlement,
    TopicEvents,
)
from mainstem.core.errors import MainstemError, Unsupported
from mainstem.heads.confirmations import Confirmations
from mainstem.heads.conversation import Answer, Later, Outbox
from mainstem.heads.queue_consumer import QueueConsumer
from mainstem.heads.stomp.adapter.declarations import Declarations
from mainstem.heads.stomp.adapter.destinations import (
    BadDestination,
    Destination,
    Kind,
    durable_name,
    is_durable,
    parse,
)
from mainstem.heads.stomp.adapter.errors import refusal
from mainstem.heads.stomp.adapter.messages import delay_of, event_of, unsupported
from mainstem.heads.stomp.adapter.service import Service
from mainstem.heads.stomp.adapter.subscriptions import Messages, Subscription
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
UPKEEP_MS = 5_000
"""Maximum interval of ``upkeep``: lock renewals, and checks for new partitions of topics."""
_PREFETCHES = ("prefetch-count", "activemq.prefetchSize")
_PRIORITIES = ("x-priority", "activemq.priority")
MAX_PREFETCH = 100_000
"""Maximum prefetch of a subscription; larger requested values are reduced to it."""


class StompConversation:
    """One client's connection."""

    def __init__(self, service: Service, outbox: Outbox) -> None:
        self._service = service
        self._context = service.context
        self._counts = service.counts
        self._outbox = outbox
        self._session = Session(service.settings, service.clock_ms())
        self._session_id = service.new_session_id()
        self._messages = Messages(service, outbox, self._session, self._session_id)
        self._confirmations = Confirmations(self._context, self._fail)
        self._client_id: str | None = None
        self._act_as(self._context.auth.peer(outbox.peer, tls=outbox.is_tls))
        self._subscriptions: dict[str, Subscription] = {}
        self._unsubscribed: list[Subscription] = []
        """Ended subscriptions of queues, whose messages the client may still acknowledge."""
        self._acks: dict[QueueConsumer, list[Settlement]] = {}
        self._waiting: set[Callable[[], None]] = set()
        self._next_upkeep_ms: int | None = None
        self._is_closed = False

    # Called by the transport

    def frame_size(self, view: memoryview) -> int | None:
        """Return the size of the frame that begins here, None if more bytes are needed."""
        try:
            return self._session.frame_size(view)
        except Refused as error:
            raise self._refusal(error) from None

    def handle(self, frame: memoryview) -> Answer | Later:
        """Carry out the request in a frame; return its answer, or a Later for it."""
        try:
            request = self._session.receive(frame)
            if request is None:
                return ()
            self._counts.frames[request.command] += 1
            for each in request.requests if isinstance(request, Commit | Abort) else ():
                self._counts.frames[each.command] += 1
            answer = self._carry_out(request)
        except (Refused, BadDestination, MainstemError) as error:
            raise self._refusal(error) from error
        if answer and not isinstance(answer, Later):
            self._session.sent_ms = self._service.clock_ms()
        return answer

    def deadline(self) -> int | None:
        """Return when ``tick`` is due next (monotonic ms), None if never."""
        self._session.heard_ms = self._outbox.heard_ms
        due_ms = self._session.deadline()
        if self._next_upkeep_ms is None and (every := self._every_subscription()):
            queues = [each.queue for each in every if each.unsettled]
            locks = [each.lock_ms() for each in queues if each is not None]
            soonest = min([UPKEEP_MS, *(each // 3 for each in locks if each is not None)])
            self._next_upkeep_ms = self._service.clock_ms() + soonest
        return min(
            (each for each in (due_ms, self._next_upkeep_ms) if each is not None), default=None
        )

    def tick(self, now_ms: int) -> Answer:
        """Send a heart-beat, renew locks and look for new partitions, whichever is due."""
        self._session.heard_ms = self._outbox.heard_ms
        try:
            beat = self._session.tick(now_ms)
            if self._next_upkeep_ms is not None and now_ms >= self._next_upkeep_ms:
                self._next_upkeep_ms = None
                for each in self._every_subscription():
                    each.upkeep()
        except (Refused, MainstemError) as error:
            raise self._refusal(error) from error
        return (beat,) if beat else ()

    def drain(self) -> Answer:
        """Return the ERROR frame that tells the client that the server stops."""
        error = self._session.refused("Server is stopping", "connect again soon\n")
        return (error.farewell,)

    def stop_waiting(self) -> None:
        """Retry one last time all publishes that wait for room in a topic."""
        for give_up in list(self._waiting):
            give_up()

    def close(self) -> None:
        """Release the client's unsettled messages, and delete its temporary queues."""
        self._is_closed = True
        self.stop_waiting()
        self._counts.subscriptions -= len(self._subscriptions)
        for subscription in self._subscriptions.values():
            subscription.close()
        errors: list[MainstemError] = []
        queues = [each.queue for each in self._every_subscription()]
        for call in (self._append_acks, *(each.leave for each in queues if each is not None)):
            try:
                call()
            except MainstemError as error:
                errors.append(error)
        for failed in (*errors, *self._declarations.delete_temporary()):
            _logger.warning("cleaning up after %s disconnected: %s", self._outbox.peer, failed)

    def _every_subscription(self) -> list[Subscription]:
        self._unsubscribed = [each for each in self._unsubscribed if each.unsettled]
        return [*self._subscriptions.values(), *self._unsubscribed]

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
                # Requests of an aborted transaction get their receipts, too.
                receipts = [each.receipt for each in request.requests]
                return self._confirm([*receipts, request.receipt])
            case Begin():
                return self._confirm([request.receipt])
            case Connect():
                return self._connect(request)
            case Disconnect():
                return self._disconnect(request)

    def _confirm(
        self, receipts: Sequence[str | None], later: Later | None = None
    ) -> Answer | Later:
        """Answer with RECEIPT frames for those given, once all appends so far are durable.

        ``later``: the request's pending answer, if it has one.
        """
        frames = self._receipts(receipts)
        if later is None and (self._confirmations.is_all_durable or not frames):
            return frames
        found = later or Later()
        self._confirmations.when_durable(lambda: found.settle(frames))
        return found

    def _receipts(self, receipts: Sequence[str | None]) -> list[bytes]:
        return [self._session.receipt(each) for each in receipts if each is not None]

    # CONNECT and DISCONNECT

    def _connect(self, request: Connect) -> Answer:
        mechanism = "ANONYMOUS" if request.login is None else "PLAIN"
        said = Credentials(request.login or "", (request.passcode or "").encode())
        self._act_as(self._context.auth.authenticate(mechanism, said, self._peer))
        self._client_id = request.client_id
        return (self._session.connected(self._session_id, SERVER),)

    def _act_as(self, peer: Peer) -> None:
        """Set the authenticated peer, with whose permissions the broker is used from now on."""
        self._peer = peer
        self._door = self._context.door(peer)
        self._declarations = Declarations(
            self._context,
            self._door,
            self._session_id,
            self._service.settings.max_subscriptions,
            self._confirmations.not_before,
        )

    def _disconnect(self, request: Disconnect) -> Later:
        self._append_acks()
        later = Later()
        # No frame may follow [DISCONNECT].
        later.hold()

        def end() -> None:
            later.settle(self._receipts([request.receipt]))
            self._outbox.end()

        self._confirmations.when_durable(end)
        return later

    # SEND and COMMIT

    def _entry(self, request: Send) -> TopicEvents | DelayedEvent:
        if (header := unsupported("SEND", request.headers)) is not None:
            raise Unsupported(f"the header {header!r} requests a feature that is not supported")
        topic = self._declarations.to_send(parse(request.destination))
        reply_to = request.headers.get("reply-to", "")
        if reply_to.startswith(f"/{Kind.TEMPORARY}/"):
            key = f"id {reply_to}"
            if key not in self._subscriptions:
                found = self._declarations.to_subscribe(parse(reply_to), "")
                self._consume(Subscribe(key, reply_to, reply_to, AckMode.AUTO, {}, None), found)
            request.headers["reply-to"] = self._declarations.reply_queue(reply_to)
        event = event_of(request)
        if delay_ms := delay_of(request):
            return DelayedEvent(event, self._context.now_ms() + delay_ms, topic)
        return TopicEvents(topic, (event,))

    def _commit(self, request: Commit) -> Answer | Later:
        self._append_acks()
        entries: list[TopicEvents | DelayedEvent] = []
        settled: list[QueueSettlements] = []
        after: list[Callable[[], None]] = []
        for each in request.requests:
            if isinstance(each, Send):
                entries.append(self._entry(each))
                continue
            subscription, said = self._settlements(each)
            if (queue := subscription.queue) is None:
                after.append(partial(subscription.settle_followed, said))
            else:
                settled.append(QueueSettlements(*queue.queue, queue.owner, said))
                after.append(partial(queue.add_credit, len(said)))
        receipts = [*(each.receipt for each in request.requests), request.receipt]
        return self._publish(entries, settled, receipts, after)

    def _publish(
        self,
        entries: Sequence[TopicEvents | DelayedEvent],
        settled: Sequence[QueueSettlements],
        receipts: Sequence[str | None],
        after: Sequence[Callable[[], None]] = (),
        held: HeldPublish | None = None,
        later: Later | None = None,
    ) -> Answer | Later:
        now = [each for each in entries if isinstance(each, TopicEvents)]
        later_ones = [each for each in entries if isinstance(each, DelayedEvent)]
        found = self._door.publish_all(now, settled, held, later_ones)
        if isinstance(found, HeldPublish):
            waits = later or Later()
            # Later requests must not overtake this one.
            waits.hold()

            def again(held: HeldPublish) -> None:
                try:
                    self._publish(entries, settled, receipts, after, held, waits)
                except MainstemError as error:
                    waits.fail(self._refusal(error))

            self._context.when_room(self._waiting, found, again)
            return waits
        self._confirmations.not_before(found.durable)
        for call in after:
            call()
        return self._confirm(receipts, later)

    # ACK and NACK

    def _settle(self, request: Settle) -> Answer | Later:
        subscription, said = self._settlements(request)
        if (queue := subscription.queue) is None:
            subscription.settle_followed(said)
            return self._confirm([request.receipt])
        if not self._acks:
            self._context.on_loop(self._append_acks_or_end)
        self._acks.setdefault(queue, []).extend(said)
        if request.receipt is not None:
            self._append_acks()
        return self._confirm([request.receipt])

    def _settlements(self, request: Settle) -> tuple[Subscription, list[Settlement]]:
        """Return the settlements of the messages of an ACK or NACK, and forget the messages."""
        found = self._messages.settle(request.message_id)
        if found is None:
            text = f"no message {request.message_id!r:.200} is to be acknowledged by this session\n"
            raise self._session.refused("Message not found", text, request.receipt)
        subscription, unsettled = found
        outcome = self._outcome(request)
        return subscription, [each._replace(outcome=outcome) for each in unsettled]

    def _outcome(self, request: Settle) -> Outcome:
        if request.accepted:
            return Outcome.ACK
        requeue = request.requeue
        if requeue is None:
            requeue = self._service.settings.nack_requeue
        return Outcome.NACK if requeue else Outcome.REJECT

    def _append_acks(self) -> None:
        """Append the collected ACKs, in one append per queue."""
        acks, self._acks = self._acks, {}
        for queue, settled in acks.items():
            found = queue.settle(settled)
            self._confirmations.not_before(found.durable)
            for error in found.refused.values():
                raise error
            queue.add_credit(len(settled))

    def _append_acks_or_end(self) -> None:
        try:
            self._append_acks()
        except MainstemError as error:
            self._fail(error)

    # SUBSCRIBE and UNSUBSCRIBE

    def _subscribe(self, request: Subscribe) -> Later:
        if (header := unsupported("SUBSCRIBE", request.headers)) is not None:
            raise Unsupported(f"the header {header!r} requests a feature that is not supported")
        later = Later()
        later.hold()
        # A new subscription starts after all events this client has sent, so they must be durable.
        self._step(later, partial(self._find, request, later))
        return later

    def _find(self, request: Subscribe, later: Later) -> None:
        durable = durable_name(request.headers, request.id, self._client_id)
        destination = self._declarations.to_subscribe(parse(request.destination), durable)
        self._step(later, partial(self._begin, request, destination, later))

    def _begin(self, request: Subscribe, destination: Destination, later: Later) -> None:
        # The receipt comes before the messages.
        later.settle(self._receipts([request.receipt]))
        self._consume(request, destination)

    def _step(self, later: Later, call: Callable[[], None]) -> None:
        """Carry out a step of a request once all earlier requests are durable.

        An error of the step ends the session with an ERROR frame.
        """

        def carry_out() -> None:
            try:
                if not self._is_closed:
                    call()
            except (BadDestination, MainstemError) as error:
                later.fail(self._refusal(error))

        self._confirmations.when_durable(carry_out)

    def _consume(self, request: Subscribe, destination: Destination) -> None:
        self._subscriptions[request.key] = Subscription(
            self._messages,
            self._door,
            request,
            destination,
            self._cancelled,
            credit=prefetch_of(request.headers, self._service.settings.prefetch),
            priority=_number(request.headers, _PRIORITIES, 0),
        )
        self._counts.subscriptions += 1

    def _unsubscribe(self, request: Unsubscribe) -> Answer | Later:
        self._append_acks()
        found = self._subscriptions.pop(request.subscription.key)
        self._counts.subscriptions -= 1
        found.close()
        if found.queue is None:
            pass
        elif found.destination.kind is Kind.TOPIC and is_durable(request.headers):
            self._declarations.delete_queue(found.destination)
        else:
            self._unsubscribed.append(found)
        return self._confirm([request.receipt])

    def _cancelled(self, subscription: Subscription, error: MainstemError) -> None:
        """End the session, because a subscribed queue or topic was deleted or cannot be read."""
        text = f"no more messages of {subscription.destination.shown!r:.200}: {error}\n"
        self._end(self._session.refused("Server cancelled subscription", text))

    # Refusals

    def _refusal(self, error: Refused | BadDestination | MainstemError) -> Refused:
        """Count an error, and convert it to one with an ERROR frame."""
        if isinstance(error, BadDestination):
            error = self._session.refused(error.summary, error.detail)
        elif isinstance(error, MainstemError):
            error = refusal(self._session, error)
        self._counts.errors[error.summary] += 1
        return error

    def _fail(self, error: MainstemError) -> None:
        """End the session: a request failed that the client may think has succeeded."""
        self._end(refusal(self._session, error))

    def _end(self, error: Refused) -> None:
        self._outbox.end((self._refusal(error).farewell,), str(error))


def prefetch_of(headers: Mapping[str, str], default: int) -> int:
    """Return a subscription's prefetch, the maximum number of its unsettled messages."""
    # In RabbitMQ 0 means no limit, but unsettled messages take memory.
    return min(_number(headers, _PREFETCHES, default) or MAX_PREFETCH, MAX_PREFETCH)


def _number(headers: Mapping[str, str], names: Sequence[str], default: int) -> int:
    for name in names:
        if name in headers:
            text = headers[name].strip()
            if not text.isdecimal() or len(text) > 9:
                raise BadDestination("Invalid header", f"{name!r} is no number: {text!r:.50}")
            return int(text)
    return default
