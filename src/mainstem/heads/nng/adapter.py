"""Maps nng to the broker.

| nng | the broker |
|---|---|
| a message of PUB | an event of a topic of ``nng.topics``, which begins with its subject |
| a request to REP | a read of the log |
| a message that PULL or SUB receives | an event: the message is its value |
| a message of PUSH | an event of a queue, acknowledged when nng takes it |
| a message of a named subscriber's PUB | an event from the cursor on (``subscriber.py``) |

nng filters at the subscriber, and has no login: everyone who connects to PUB gets all topics, so
the peer's address must be permitted to read them all. PUB never waits for a subscriber.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pynng

from mainstem.auth import Action, Resource, ResourceKind
from mainstem.core.errors import MainstemError
from mainstem.core.event import Event
from mainstem.heads.addresses import NONE, address_of
from mainstem.heads.brokerless.addresses import Place, places, publish_address, sources
from mainstem.heads.brokerless.codec import decode_request, encode_answer, joined, parted
from mainstem.heads.brokerless.collection import Collection, create_topics
from mainstem.heads.brokerless.handover import Handover
from mainstem.heads.brokerless.live_tail import LiveTail
from mainstem.heads.brokerless.metrics import Counted
from mainstem.heads.brokerless.replay import REQUEST_BYTES, Replays
from mainstem.heads.context import HeadContext
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.nng import metrics
from mainstem.heads.nng.answers import Answers
from mainstem.heads.nng.publisher import Publisher
from mainstem.heads.nng.settings import NngSettings
from mainstem.heads.nng.subscriber import Subscriber, check_names
from mainstem.heads.transport.nng_socket import NngSocket, connections
from mainstem.heads.transport.quiet import quiet
from mainstem.heads.transport.traffic import ConnectionInfo, Traffic, total

if TYPE_CHECKING:
    import asyncio
    import socket

_logger = logging.getLogger("mainstem.heads.nng")


class NngHead:
    """The nng head while it runs."""

    def __init__(
        self, context: HeadContext, settings: NngSettings, listener: "socket.socket"
    ) -> None:
        self._context, self._settings = context, settings
        self.address = address_of(listener)
        self._listener = listener
        self._traffic = Traffic()
        self._sockets: list[NngSocket] = []
        self._topics = () if settings.topics == NONE else tuple(settings.topics.split(","))
        self._tails: dict[str, LiveTail] = {}
        self._replays = Replays[bytes](context, lambda said: decode_request(parted(said)))
        self._collections: list[Collection] = []
        self._handovers: list[Handover] = []
        self._subscribers: list[Subscriber] = []
        self._end_watch: Callable[[], None] | None = None

    def start(self) -> None:
        """Open all sockets; raises InvalidSetting, Unsupported, UnknownTopic, UnknownQueue."""
        asked = self._settings
        pulled = list(places(asked.pull, "nng.pull"))
        collected = list(sources(asked.collect, "nng.collect"))
        pushed = list(places(asked.push, "nng.push", named=True))
        subscribers = list(places(asked.subscribers, "nng.subscribers", named=True))
        create_topics(self._context, [*pulled, *collected])
        for name in self._topics:
            self._context.broker.topic(name)
        self._publisher = self._open(pynng.Pub0(), admit=self._may_read_all)
        at = publish_address(asked, self.address, "nng.publish")
        self.publishes_at = self._publisher.listen(at, "nng.publish")
        self._replies = self._open(
            pynng.Rep0(),
            self._requested,
            limit=min(REQUEST_BYTES, asked.max_message_bytes),
            per_turn=1,
            tells_sender=True,
        )
        self._answers = Answers(self._context, self._replies)
        # nng must listen itself; the bound socket is closed, so that the port is free for it.
        self._listener.close()
        self._replies.listen(self.address, "nng.listen")
        outlet = self._outlet = Publisher(self._context, self._publisher, asked.queue_length)
        for name in self._topics:
            self._tails[name] = LiveTail(self._context, name, outlet, self._gone(name))
        for each in pulled:
            opened = self._open_collector(each, pynng.Pull0())
            opened.listen(each.address, "nng.pull")
        for each in collected:
            subscriber = pynng.Sub0()
            subscriber.subscribe(each.prefix.encode())
            opened = self._open_collector(each, subscriber)
            opened.raw.dial(f"tcp://{each.address}", block=False)
        for each in pushed:
            self._push(each)
        check_names(subscribers)
        for each in subscribers:
            self._subscribers.append(Subscriber(self._context, each, asked))
        self._end_watch = self._context.broker.watch_topics(self._topics_changed)

    def _open(
        self,
        found: "pynng.Socket",
        receive: Callable[[list[bytes]], None] | None = None,
        *,
        limit: int | None = None,
        admit: Callable[[str], bool] | None = None,
        per_turn: int = 256,
        tells_sender: bool = False,
    ) -> NngSocket:
        found.recv_max_size = limit or self._settings.max_message_bytes
        if not isinstance(found, pynng.Pull0 | pynng.Sub0 | pynng.Rep0):
            found.send_buffer_size = self._settings.queue_length
        may = admit or (lambda _: True)
        opened = NngSocket(
            found,
            self._traffic,
            receive,
            admit=lambda peer: self._traffic.open < self._settings.max_connections and may(peer),
            per_turn=per_turn,
            tells_sender=tells_sender,
        )
        self._sockets.append(opened)
        return opened

    def _may_read_all(self, address: str) -> bool:
        principal = self._context.auth.peer(address).principal
        try:
            for name in self._topics:
                resource = Resource(ResourceKind.TOPIC, name)
                self._context.auth.authorize(principal, Action.READ, resource)
        except MainstemError as error:
            _logger.warning("%s is refused: %s", address, error)
            return False
        return True

    def _gone(self, name: str) -> Callable[[MainstemError], None]:
        def gone(error: MainstemError) -> None:
            _logger.error("topic %s is not published any more: %s", name, error)

        return gone

    def _topics_changed(self) -> None:
        self._context.on_loop(self._look)

    def _look(self) -> None:
        for tail in self._tails.values():
            tail.look()
        for each in self._subscribers:
            each.look()

    # Replay

    def _requested(self, messages: list[bytes]) -> None:
        for said in messages:
            # nng does not tell who has sent a request.
            peer = self._context.auth.peer(f"{self.address.host}:0")
            found = self._replays.answer(peer, said, self.publishes_at.port)
            self._answers.send(joined(encode_answer(found)), partial(self._replays.answered, found))

    # Collecting, and queues

    def _open_collector(self, place: Place, found: "pynng.Socket") -> NngSocket:
        self._context.broker.topic(place.topic)
        collection = Collection(self._context, place.topic)
        self._collections.append(collection)

        def collect(messages: list[bytes]) -> None:
            door = self._context.door(self._context.auth.peer(f"{place.address.host}:0"))
            collection.add(door, [Event(each) for each in messages])

        opened = self._open(found, collect)
        collection.attach(opened.pause, opened.resume)
        return opened

    def _push(self, place: Place) -> None:
        opened = self._open(pynng.Push0())
        at = opened.listen(place.address, "nng.push")

        def send(event: Event) -> bool:
            return opened.send(event.value or b"")

        queue = place.topic, place.name
        self._handovers.append(Handover(self._context, queue, f"nng:{at}", opened, send))

    # Called by the node

    def connections(self) -> Sequence[ConnectionInfo]:
        """Return the connected peers."""
        found = connections(self._sockets)
        for each in self._subscribers:
            found += each.server.connections()
        return found

    @property
    def traffic(self) -> Traffic:
        """The counters of all sockets of the head, in total."""
        return total([self._traffic, *(each.server.traffic for each in self._subscribers)])

    def samples(self) -> Iterator[tuple[Metric, Sample]]:
        """Yield the head's metrics with their values."""
        for name, tail in self._tails.items():
            yield metrics.COMMON.published, ((name,), tail.published)
            yield metrics.COMMON.missed, ((name,), tail.missed)
        yield metrics.DROPPED, ((), self._outlet.dropped)
        counted: list[Counted] = [self._replays, *self._collections, *self._handovers]
        for each in counted:
            yield from each.samples(metrics.COMMON)
        for subscriber in self._subscribers:
            yield from subscriber.samples()

    async def drain(self, within_s: float, hurry: "asyncio.Event") -> None:
        """Answer the requests that have arrived, then stop."""
        await quiet(self._traffic, within_s, hurry)
        for each in self._subscribers:
            await each.server.drain(within_s, hurry)
        self._end()

    async def close(self) -> None:
        """Close all sockets at once."""
        self._end()
        for each in self._subscribers:
            await each.server.close()

    def _end(self) -> None:
        for tail in self._tails.values():
            tail.close()
        for each in self._handovers:
            each.close()
        self._listener.close()
        for opened in self._sockets:
            opened.close()
        if self._end_watch is not None:
            self._end_watch()
