"""One AMQP channel: carries out its methods on the broker and sends the responses.

How this works: a declaration takes effect at once, and its response is sent once it is durable.
Methods that count or get messages first wait until earlier messages of the queue are durable.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from mainstem.broker.door import AT_ONCE, Durable, HeldPublish, Outcome
from mainstem.core.errors import MainstemError, StorageFull
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.adapter.publishing.confirms import Confirms
from mainstem.heads.amqp091.adapter.publishing.publisher import Routed
from mainstem.heads.amqp091.adapter.publishing.replies import REPLY_PREFIX, REPLY_TO
from mainstem.heads.amqp091.adapter.queues.deliveries import Consumer, Deliveries, Unacked
from mainstem.heads.amqp091.adapter.queues.queues import Unseen
from mainstem.heads.amqp091.adapter.topology.declared import Binding, DestinationKind, Queue
from mainstem.heads.amqp091.adapter.topology.refusals import not_found
from mainstem.heads.amqp091.adapter.topology.topology import Topology
from mainstem.heads.amqp091.codec import method_frame
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.messages import Publish
from mainstem.heads.amqp091.methods import Bare, Method
from mainstem.heads.queue_consumer import QueueConsumer

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.conversation import AmqpConversation
    from mainstem.heads.amqp091.adapter.queues.queues import DeclaredQueue

_M = TypeVar("_M", methods.BasicGet, methods.QueueDeclare, methods.QueueDelete, methods.QueuePurge)

SEEN_MS = 10_000
"""Maximum time that a method waits until earlier messages of its queue are durable."""


class Transaction:
    """The messages published and deliveries settled in a channel's open transaction."""

    def __init__(self) -> None:
        self.routed: list[Routed] = []
        self.size = 0
        """Total size of the published messages in bytes."""
        self.settled: list[tuple[Unacked, Outcome]] = []
        self.calls: list[Callable[[], None]] = []
        """Calls to make at commit: they send returned messages and direct replies."""


class AmqpChannel:
    """The state of one open channel: consumers, unacked deliveries, confirms and transaction."""

    def __init__(self, connection: "AmqpConversation", number: int) -> None:
        self.number = number
        self._connection = connection
        self._service = connection.service
        self.confirms: Confirms | None = None
        """Publisher confirms, if the client has selected them."""
        self.is_open = True
        self._transaction: Transaction | None = None
        self._consumers: dict[str, Consumer] = {}
        self.prefetch: int | None = None
        """Prefetch limit of each consumer that is started from now on (BasicQos with global=false).
        """
        self._last_queue = ""
        """Name of the queue declared last; an empty queue name in a method means this queue."""
        connection.opened += 1
        self._deliveries = Deliveries(connection, number, f"{connection.id}.{connection.opened}")
        self._service.counts.channels += 1

    def close(self) -> None:
        """Cancel the consumers, requeue unacked deliveries and drop the open transaction."""
        if not self.is_open:
            return
        self.is_open = False
        self._service.counts.channels -= 1
        if self._transaction is not None:
            self._connection.in_transactions -= self._transaction.size
            self._transaction = None
        self._service.replies.forget(self)
        for tag in list(self._consumers):
            self._end_consumer(tag)
        self._deliveries.give_back()

    @property
    def consumers(self) -> list[Consumer]:
        """The channel's consumers."""
        return list(self._consumers.values())

    @property
    def unacked(self) -> int:
        """The number of unacknowledged deliveries."""
        return self._deliveries.unacked

    @property
    def is_transactional(self) -> bool:
        """Whether the client has selected transactions."""
        return self._transaction is not None

    # The hot path

    def publish(self, message: Publish) -> None:
        """Publish a message, or add it to the channel's open transaction."""
        if self._transaction is None:
            self._connection.publisher.publish(self, message)
            return
        routed = self._connection.publisher.route(self, 0, message)
        if routed is not None:
            self._keep(self._transaction, routed.size, len(routed.places))
            self._transaction.routed.append(routed)

    def at_commit(self, message: Publish, call: Callable[[], None]) -> None:
        """Call ``call`` now, or at the commit if a transaction is open.

        The transaction then counts the size of ``message``. Raises AmqpError as ``_keep`` does.
        """
        if self._transaction is None:
            call()
            return
        self._keep(self._transaction, message.size, 1)
        self._transaction.calls.append(call)

    def _keep(self, transaction: Transaction, size: int, copies: int) -> None:
        """Count ``size`` more bytes in the transaction.

        Raises AmqpError if the open transactions of the connection would exceed
        ``max_transaction_bytes``; a single message with one copy may exceed it.
        """
        connection, most = self._connection, self._service.settings.max_transaction_bytes
        is_alone = not connection.in_transactions and copies == 1
        if connection.in_transactions + size > most and not is_alone:
            detail = f"transactions of more than {most} bytes (amqp.max_transaction_bytes)"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail)
        transaction.size += size
        connection.in_transactions += size

    def settle(self, said: methods.BasicAck | methods.BasicNack | methods.BasicReject) -> None:
        """Ack, nack or reject deliveries; in an open transaction only when it is committed."""
        match said:
            case methods.BasicAck():
                outcome, multiple = Outcome.ACK, said.multiple
            case methods.BasicNack():
                outcome = Outcome.NACK if said.requeue else Outcome.REJECT
                multiple = said.multiple
            case methods.BasicReject():
                outcome = Outcome.NACK if said.requeue else Outcome.REJECT
                multiple = False
        found = self._deliveries.take(said.delivery_tag, multiple=multiple)
        if self._transaction is None:
            self._deliveries.settle(found, outcome)
        else:
            self._transaction.settled += [(each, outcome) for each in found]

    def send_reply(self, tag: bytes, message: Publish) -> None:
        """Deliver a direct reply to the channel's consumer of ``amq.rabbitmq.reply-to``."""
        self._deliveries.send_reply(tag, message)

    # All other methods

    def carry_out(self, method: Method | Bare) -> None:  # noqa: C901, PLR0912 - one for each
        """Carry out a method; the caller closes the channel for an AmqpError or MainstemError."""
        match method:
            case methods.BasicAck() | methods.BasicNack() | methods.BasicReject():
                self.settle(method)
            case methods.BasicGet():
                self._when_seen(method, self._get)
            case methods.BasicConsume():
                self._consume(method)
            case methods.BasicCancel():
                self._cancel(method)
            case methods.BasicQos():
                self._qos(method)
            case methods.BasicRecover() | methods.BasicRecoverAsync():
                self._recover(method)
            case methods.QueueDeclare():
                self._when_seen(method, self._declare_queue)
            case methods.QueueBind() | methods.QueueUnbind():
                self._bind_queue(method)
            case methods.QueuePurge():
                self._when_seen(method, self._purge)
            case methods.QueueDelete():
                self._when_seen(method, self._delete_queue)
            case methods.ExchangeDeclare():
                durable = self._topology.declare_exchange(self._vhost, method)
                self._answer(method.nowait, Bare.EXCHANGE_DECLARE_OK, durable)
            case methods.ExchangeDelete():
                durable = self._topology.delete_exchange(
                    self._vhost, method.exchange, if_unused=method.if_unused
                )
                self._answer(method.nowait, Bare.EXCHANGE_DELETE_OK, durable)
            case methods.ExchangeBind() | methods.ExchangeUnbind():
                self._bind_exchange(method)
            case methods.ConfirmSelect():
                self._select_confirms(method)
            case methods.ChannelFlow():
                self._answer(False, methods.ChannelFlowOk(True))
            case Bare.TX_SELECT | Bare.TX_COMMIT | Bare.TX_ROLLBACK:
                self._transact(method)
            case _:
                raise AmqpError(ReplyCode.COMMAND_INVALID, "unimplemented method", *method.ids)

    @property
    def _vhost(self) -> str:
        return self._connection.vhost

    def _answer(self, nowait: bool, method: Method | Bare, durable: Durable = AT_ONCE) -> None:
        """Send the response to a method once its changes are durable; none if ``nowait`` is set."""
        # So earlier acknowledgements survive kill -9.
        self._service.context.settlements.flush()
        if not nowait:
            frame = method_frame(self.number, method)
            self._connection.publisher.when_durable(partial(self._send, frame), durable)

    def _send(self, frame: bytes) -> None:
        if self.is_open:
            self._connection.send([frame])

    def _when_seen(self, method: _M, call: Callable[[_M], None]) -> None:
        """Call ``call`` with a method when messages published earlier to its queue are durable.

        Until then, later requests of the connection wait.
        """
        # Pending settlements may dead-letter messages to this queue.
        self._service.context.settlements.flush()
        place = (self._vhost, method.queue or self._last_queue)
        gone, unseen = self._service.queues.gone(*place), self._service.queues.unseen(*place)
        if gone.done and not unseen:
            call(method)
            return
        go_on = self._connection.hold()

        def carry_out() -> None:
            if self.is_open:
                self._connection.guarded(self.number, method.ids, partial(call, method))
            go_on()

        if unseen:
            self._wait_for(unseen, carry_out)
        else:
            self._connection.publisher.when_durable(carry_out, gone)

    def _wait_for(self, unseen: Sequence[Unseen], call: Callable[[], None]) -> None:
        """Call ``call`` when the ``unseen`` messages are durable, after SEEN_MS at the latest."""
        left = len(unseen)

        def seen() -> None:
            nonlocal left
            left -= 1
            if not left:
                parked.wake()

        def look() -> None:
            parked.end()
            call()

        context = self._service.context
        parked = context.park(self._connection.waiting, SEEN_MS, lambda _: call(), look)
        for each in unseen:
            parked.watches[each] = context.broker.watch(*each, seen)

    # Queues

    def _named(self, name: str) -> str:
        """Return the queue name of a method; an empty one means the queue declared last."""
        if name:
            return name
        if not self._last_queue:
            raise AmqpError(ReplyCode.NOT_FOUND, "no previously declared queue")
        return self._last_queue

    def _queue(self, name: str) -> "DeclaredQueue":
        return self._service.queues.find(self._connection, self._named(name))

    def _declare_queue(self, method: methods.QueueDeclare) -> None:
        if method.queue == REPLY_TO or method.queue.startswith(REPLY_PREFIX):
            self._find_reply_name(method)
            return
        queue, durable = self._service.queues.declare(self._connection, method)
        self._last_queue = queue.name
        queue.serve_consumers(self._service.context)
        counts = (queue.ready(self._connection.door), len(queue.consumers))
        self._answer(method.nowait, methods.QueueDeclareOk(queue.name, *counts), durable)

    def _find_reply_name(self, method: methods.QueueDeclare) -> None:
        """Answer QueueDeclare for a name of direct replies; no queue is created.

        The name ``REPLY_TO`` always exists (FastStream looks for it before it consumes). A
        channel's unique reply name exists as long as the channel's consumer of direct replies.
        """
        if method.queue != REPLY_TO and not self._service.replies.knows(method.queue):
            raise not_found(Queue.kind, method.queue, self._vhost)
        self._answer(method.nowait, methods.QueueDeclareOk(method.queue, 0, 1))

    def _bind_queue(self, method: methods.QueueBind | methods.QueueUnbind) -> None:
        name = self._named(method.queue)
        key = method.routing_key
        if not method.queue and not key and isinstance(method, methods.QueueBind):
            # "If the queue name is empty ... and the routing key is also empty" [queue.bind]
            key = name
        binding = Binding(
            self._vhost, method.exchange, DestinationKind.QUEUE, name, key, method.arguments
        )
        if isinstance(method, methods.QueueBind):
            durable = self._topology.bind(binding, self._connection.id)
            self._answer(method.nowait, Bare.QUEUE_BIND_OK, durable)
        else:
            durable = self._topology.unbind(binding, self._connection.id)
            self._answer(False, Bare.QUEUE_UNBIND_OK, durable)

    def _bind_exchange(self, method: methods.ExchangeBind | methods.ExchangeUnbind) -> None:
        kind, key = DestinationKind.EXCHANGE, method.routing_key
        binding = Binding(
            self._vhost, method.source, kind, method.destination, key, method.arguments
        )
        if isinstance(method, methods.ExchangeBind):
            self._answer(method.nowait, Bare.EXCHANGE_BIND_OK, self._topology.bind(binding))
        else:
            self._answer(method.nowait, Bare.EXCHANGE_UNBIND_OK, self._topology.unbind(binding))

    def _purge(self, method: methods.QueuePurge) -> None:
        queue = self._queue(method.queue)
        count, durable = self._connection.door.queues.purge(*queue.place)
        self._answer(method.nowait, methods.QueuePurgeOk(count), durable)

    def _delete_queue(self, method: methods.QueueDelete) -> None:
        count, durable = self._service.queues.delete(
            self._connection,
            self._named(method.queue),
            if_unused=method.if_unused,
            if_empty=method.if_empty,
        )
        self._answer(method.nowait, methods.QueueDeleteOk(count), durable)

    @property
    def _topology(self) -> Topology:
        return self._service.topology

    # Consuming

    def _qos(self, method: methods.BasicQos) -> None:
        if method.prefetch_size:
            detail = f"prefetch_size!=0 ({method.prefetch_size})"
            raise AmqpError(ReplyCode.NOT_IMPLEMENTED, detail, *method.ids)
        limit = method.prefetch_count or None
        if method.is_global:
            self._deliveries.limit(limit)
        else:
            self.prefetch = limit
        self._answer(False, Bare.BASIC_QOS_OK)

    def _consume(self, method: methods.BasicConsume) -> None:
        tag = method.consumer_tag or self._service.new_consumer_tag()
        if tag in self._consumers or self._service.replies.has(self, tag):
            detail = f"attempt to reuse consumer tag '{tag}'"
            raise AmqpError(ReplyCode.NOT_ALLOWED, detail, *method.ids)
        if method.queue == REPLY_TO:
            name = f"{REPLY_PREFIX}{self._service.new_token()}"
            self._service.replies.consume(self, tag, name, no_ack=method.no_ack)
            self._answer(method.nowait, methods.BasicConsumeOk(tag))
            return
        queue, priority = self._queue(method.queue), _priority(method)
        consumer = Consumer(
            tag,
            queue,
            no_ack=method.no_ack,
            exclusive=method.exclusive,
            prefetch=None if method.no_ack else self.prefetch,
            arguments=method.arguments,
        )
        self._service.queues.check_exclusive(queue, consumer)
        most = self._service.settings.max_consumers
        if self._connection.consumers >= most:
            detail = f"reached maximum ({most}) of consumers per connection (amqp.max_consumers)"
            raise AmqpError(ReplyCode.NOT_ALLOWED, detail, *method.ids)
        # A client without the permission gets an error here, rather than a cancelled consumer
        # later.
        self._connection.door.queues.acquire(*queue.place, self._deliveries.owner, max_events=0)
        # ConsumeOk must precede the consumer's first message.
        if not method.nowait:
            self._connection.send([method_frame(self.number, methods.BasicConsumeOk(tag))])
        self._consumers[tag] = consumer
        self._connection.consumers += 1
        consumer.source = QueueConsumer(
            self._service.context,
            self._connection.door,
            self._connection.outbox,
            queue.place,
            self._deliveries.owner,
            partial(self._deliveries.send, consumer),
            lambda error: self._cancelled(consumer, error),
            credit=consumer.prefetch,
            session=self._deliveries.session,
            priority=priority,
            auto_ack=method.no_ack,
            locked=False,
            single=queue.record.settings.single_active_consumer,
        )
        self._service.queues.consume(queue, consumer)

    def _cancel(self, method: methods.BasicCancel) -> None:
        self._service.replies.cancel(self, method.consumer_tag)
        if method.consumer_tag in self._consumers:
            self._end_consumer(method.consumer_tag)
        # CancelOk must follow the messages already sent to the consumer.
        if not method.nowait:
            answer = methods.BasicCancelOk(method.consumer_tag)
            self._connection.send([method_frame(self.number, answer)])

    def _end_consumer(self, tag: str) -> None:
        consumer = self._consumers.pop(tag)
        self._connection.consumers -= 1
        consumer.source.close()
        self._service.queues.end_consumer(self._connection, consumer)

    def _cancelled(self, consumer: Consumer, error: MainstemError) -> None:
        """Tell the client that a consumer was cancelled: its queue was deleted or failed."""
        if self._consumers.get(consumer.tag) is not consumer:
            return
        del self._consumers[consumer.tag]
        self._connection.consumers -= 1
        self._service.queues.forget_consumer(consumer)
        self._connection.warn(f"consumer {consumer.tag!r} is cancelled: {error}")
        if self._connection.session.has("consumer_cancel_notify"):
            self._send(method_frame(self.number, methods.BasicCancel(consumer.tag, True)))

    def _get(self, method: methods.BasicGet) -> None:
        queue = self._queue(method.queue)
        queue.used_ms = self._service.clock_ms()
        frames = self._deliveries.get(queue, no_ack=method.no_ack)
        empty = [method_frame(self.number, methods.BasicGetEmpty(""))]
        self._connection.send(empty if frames is None else frames)

    def _recover(self, method: methods.BasicRecover | methods.BasicRecoverAsync) -> None:
        if not method.requeue:
            raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "requeue=false", *method.ids)
        self._deliveries.settle(self._deliveries.take(0, multiple=True), Outcome.NACK)
        if isinstance(method, methods.BasicRecover):
            self._answer(False, Bare.BASIC_RECOVER_OK)

    # Confirms and transactions

    def _select_confirms(self, method: methods.ConfirmSelect) -> None:
        if self._transaction is not None:
            detail = "cannot switch from tx to confirm mode"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, *method.ids)
        self.confirms = self.confirms or Confirms(self.number)
        self._answer(method.nowait, Bare.CONFIRM_SELECT_OK)

    def _transact(self, method: Bare) -> None:
        if method is Bare.TX_SELECT:
            if self.confirms is not None:
                detail = "cannot switch from confirm to tx mode"
                raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, *method.ids)
            self._transaction = self._transaction or Transaction()
            self._answer(False, Bare.TX_SELECT_OK)
            return
        if self._transaction is None:
            raise AmqpError(
                ReplyCode.PRECONDITION_FAILED, "channel is not transactional", *method.ids
            )
        ended, self._transaction = self._transaction, Transaction()
        self._connection.in_transactions -= ended.size
        if method is Bare.TX_ROLLBACK:
            # The deliveries stay in flight, and may be settled again.
            self._deliveries.put_back([each for each, _ in ended.settled])
            self._answer(False, Bare.TX_ROLLBACK_OK)
            return
        self._commit(ended)

    def _commit(self, ended: Transaction, go_on: Callable[[], None] | None = None) -> None:
        """Commit a transaction.

        While the disk is full, the client is blocked and the commit is retried; ``go_on``, the same
        for all tries, is called at the end, so that the client's later requests are handled.
        """
        connection, ids = self._connection, Bare.TX_COMMIT.ids
        self._service.context.settlements.flush()
        settled = [
            one
            for each, outcome in ended.settled
            for one in self._deliveries.settlements([each], outcome)
        ]
        try:
            found = connection.publisher.commit(ended.routed, settled)
        except StorageFull as error:
            go_on = go_on or connection.hold()
            again = partial(self._commit, ended, go_on)
            if connection.wait_for_space(
                error, partial(connection.guarded, self.number, ids, again)
            ):
                return
            go_on()
            raise
        if go_on is not None:
            connection.unblock()
            go_on()
        if isinstance(found, HeldPublish):
            raise AmqpError(ReplyCode.RESOURCE_ERROR, "a queue is full", *ids)
        self._deliveries.credit([each for each, _ in ended.settled])
        for call in ended.calls:
            call()
        self._answer(False, Bare.TX_COMMIT_OK, found)


def _priority(method: methods.BasicConsume) -> int:
    found = method.arguments.get("x-priority", 0)
    if isinstance(found, bool) or not isinstance(found, int):
        detail = f"invalid arg 'x-priority' for consumer: {found!r} is no integer"
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, *method.ids)
    return found
