"""One WebSocket: carries out the client's requests in order, and sends what it subscribed to."""

import asyncio
from typing import TYPE_CHECKING

from mainstem.broker.door import Door, Durable, HeldPublish
from mainstem.core.errors import InvalidEvent, InvalidSetting, MainstemError, Unsupported
from mainstem.core.names import check_group, check_topic
from mainstem.heads.http.adapter.broadcast import Call
from mainstem.heads.http.adapter.groups import check_position
from mainstem.heads.http.adapter.publishing import positions_json
from mainstem.heads.http.adapter.queues import ensure_queue
from mainstem.heads.http.adapter.service import Service
from mainstem.heads.http.adapter.websocket import messages
from mainstem.heads.http.adapter.websocket.messages import (
    AddCredit,
    Commit,
    FromClient,
    Publish,
    Ref,
    Settle,
    Subscribe,
    Unsubscribe,
)
from mainstem.heads.http.adapter.websocket.outbox import SocketOutbox
from mainstem.heads.http.adapter.websocket.subscriptions import (
    QueueSubscription,
    Subscription,
    TopicSubscription,
)
from mainstem.heads.http.formats.bodies import Parsed, too_many
from mainstem.heads.http.positions import parsed
from mainstem.heads.web.login import peer_of
from mainstem.heads.web.problem import Refused
from mainstem.heads.web.waits import until_room

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

MAX_SUBSCRIPTIONS = 100


class WebSocketApp:
    """The ASGI app of WebSockets."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Accept a WebSocket, and serve it until it is closed."""
        service = self._service
        await receive()
        door = service.door(scope)
        await send({"type": "websocket.accept"})
        peer = peer_of(scope)
        with service.streams.sending(peer.address) as sending:
            outbox = SocketOutbox(send, sending, peer.address, is_tls=peer.tls)
            talk = _Conversation(service, door, scope, outbox)
            tasks = [
                asyncio.create_task(outbox.run()),
                asyncio.create_task(talk.listen(receive)),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await talk.end(tasks)


class _Conversation:
    """The subscriptions of one client, and the requests that it sends."""

    def __init__(self, service: Service, door: Door, scope: "Scope", outbox: SocketOutbox) -> None:
        self._service, self._door, self._scope, self._outbox = service, door, scope, outbox
        self._subscriptions: dict[str, Subscription] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._peer: set[Call] = set()
        """Calls to make when the client disconnects."""

    async def listen(self, receive: "Receive") -> None:
        """Receive and carry out requests until the client disconnects."""
        while True:
            # While a client does not read its answers, its requests are not read.
            await self._outbox.until_room()
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            said: str | bytes = message.get("text") or message.get("bytes") or b""
            try:
                await self._carry_out(messages.read(said))
            except (MainstemError, Refused) as error:
                self._outbox.send((messages.error(error, messages.ref_of(said)),))

    async def end(self, tasks: list[asyncio.Task[None]]) -> None:
        """End all subscriptions, returning their deliveries to the queues; cancel all tasks."""
        for subscription in self._subscriptions.values():
            subscription.close()
        for gone in list(self._peer):
            gone()
        tasks = [*tasks, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, Exception):
                raise found

    async def _carry_out(self, asked: FromClient) -> None:
        match asked:
            case Publish():
                await self._publish(asked)
            case Settle():
                self._settle(asked)
            case AddCredit():
                self._find(asked.id).add_credit(asked.credit)
                self._confirm(asked.ref)
            case Subscribe():
                await self._subscribe(asked)
            case Unsubscribe():
                self._unsubscribe(asked)
            case Commit():
                self._commit(asked)

    async def _subscribe(self, asked: Subscribe) -> None:
        if asked.id in self._subscriptions:
            raise InvalidSetting(f"there is a subscription {asked.id!r} already: end it first")
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise InvalidSetting(f"a WebSocket has at most {MAX_SUBSCRIPTIONS} subscriptions")
        check_topic(asked.topic)
        if asked.queue is None:
            found = TopicSubscription(self._service, self._door, self._outbox, asked, self._peer)
            self._subscriptions[asked.id] = found
            self._confirm(asked.ref)
            self._tasks[asked.id] = asyncio.create_task(found.run())
            return
        if asked.from_ or asked.group or asked.partitions or asked.key or asked.filters:
            raise InvalidSetting("a subscription to a queue has no from, group, key or filters")
        check_group(asked.queue, "queue")
        await ensure_queue(self._service, self._door, asked.topic, asked.queue)
        # This checks the permission to consume.
        self._door.queues.wait_ms(asked.topic, asked.queue)
        self._subscriptions[asked.id] = QueueSubscription(
            self._service, self._door, self._outbox, asked, asked.queue
        )
        self._confirm(asked.ref)

    def _unsubscribe(self, asked: Unsubscribe) -> None:
        self._find(asked.id).close()
        del self._subscriptions[asked.id]
        task = self._tasks.pop(asked.id, None)
        if task is not None:
            task.cancel()
        self._confirm(asked.ref)

    def _settle(self, asked: Settle) -> None:
        found = self._find(asked.id)
        if not isinstance(found, QueueSubscription):
            raise Unsupported(f"subscription {asked.id!r} is to a topic, which has no deliveries")
        settlements = found.settlements(asked)
        if asked.ref is None:
            found.settle_unconfirmed(settlements)
            return
        settled = found.settle(settlements)

        def answer() -> bytes:
            for error in settled.refused.values():
                return messages.error(error, asked.ref)
            return messages.done(asked.ref)

        self._when_durable(settled.durable, asked.ref, answer)

    def _commit(self, asked: Commit) -> None:
        found = self._find(asked.id)
        if found.group is None:
            raise InvalidSetting(f"subscription {asked.id!r} has no group to commit for")
        said = parsed(asked.position)
        check_position(self._door, found.topic, said)
        offsets = {(found.topic, partition): offset for partition, offset in said.items()}
        durable = self._door.commit(found.group, offsets)
        if asked.ref is not None:
            self._when_durable(durable, asked.ref, lambda: messages.done(asked.ref))

    async def _publish(self, asked: Publish) -> None:
        service, door = self._service, self._door
        check_topic(asked.topic)
        if len(asked.events) > service.settings.max_events:
            raise too_many(service.settings.max_events)
        events = Parsed([each.event() for each in asked.events], _partition(asked))
        await service.ensure_topic(door, asked.topic)
        if asked.idempotency_key is not None:
            user = service.user(self._scope)
            key = asked.idempotency_key
            positions = await service.keys.publish(user, door, asked.topic, events, key)
            self._outbox.send((messages.published(asked.ref, positions_json(positions)[1:-2]),))
            service.counts.published += len(positions)
            return
        published = door.try_publish(asked.topic, events.events, events.partition)
        while isinstance(published, HeldPublish):
            # No further request is read meanwhile, so backpressure reaches the client.
            held = await until_room(service.context, self._peer, published)
            published = door.try_publish(asked.topic, events.events, events.partition, held)
        service.counts.published += published.count
        found = published
        self._when_durable(
            published.durable,
            asked.ref,
            lambda: messages.published(asked.ref, positions_json(found.positions)[1:-2]),
        )

    def _when_durable(self, durable: Durable, ref: Ref, answer: "Callable[[], bytes]") -> None:
        def decided(error: MainstemError | None) -> None:
            said = messages.error(error, ref) if error is not None else answer()
            self._outbox.send((said,))

        durable.then(lambda error: self._service.context.on_loop(lambda: decided(error)))

    def _confirm(self, ref: Ref) -> None:
        if ref is not None:
            self._outbox.send((messages.done(ref),))

    def _find(self, subscription: str) -> Subscription:
        found = self._subscriptions.get(subscription)
        if found is None:
            raise InvalidSetting(f"there is no subscription {subscription!r}")
        return found


def _partition(asked: Publish) -> int | None:
    """Return the partition that a request or its events name, None if they name none."""
    found = {each.partition for each in asked.events}
    if asked.partition is not None:
        found = {asked.partition}
    if len(found) > 1:
        raise InvalidEvent("the events of one request name several partitions")
    (partition,) = found
    if partition is not None and partition < 0:
        raise InvalidEvent(f"there is no partition {partition}")
    return partition
