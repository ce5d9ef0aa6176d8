"""Maps ZeroMQ to the broker.

| ZeroMQ | the broker |
|---|---|
| a subscription of SUB | topics that are read at their tails, while anybody is subscribed |
| a message of PUB | an event: subject (topic, ``/``, key), value, details; or all in one frame |
| a request to ROUTER | a read of the log |
| a message that PULL or SUB receives | an event: the first frame is its key, the last its value |
| a message of PUSH | an event of a queue, acknowledged when libzmq takes it |
| the high-water mark | the topic's policy for overload: see ``brokerless/live_tail.py`` |
| PLAIN, CURVE | a login |

libzmq drops messages for which a subscriber has no room. The subscriber sees that by the offsets,
and requests the events from ROUTER.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import zmq

from mainstem.auth import Peer, Principal
from mainstem.core.errors import MainstemError, UnknownTopic
from mainstem.core.event import Event
from mainstem.heads.addresses import address_of
from mainstem.heads.brokerless.addresses import Place, places, publish_address, sources
from mainstem.heads.brokerless.codec import (
    decode_request,
    details_of,
    encode_after,
    encode_answer,
    envelope_of,
    subject_of,
)
from mainstem.heads.brokerless.collection import Collection, create_topics, event_of
from mainstem.heads.brokerless.handover import Handover
from mainstem.heads.brokerless.live_tail import LiveTail
from mainstem.heads.brokerless.metrics import Counted
from mainstem.heads.brokerless.replay import REQUEST_BYTES, Replays
from mainstem.heads.context import HeadContext
from mainstem.heads.metric import Metric, Sample
from mainstem.heads.transport.quiet import quiet
from mainstem.heads.transport.traffic import ConnectionInfo
from mainstem.heads.transport.zmq_socket import Received, ZmqSocket, ZmqTransport
from mainstem.heads.zmq import metrics
from mainstem.heads.zmq.login import ADDRESS, Logins
from mainstem.heads.zmq.security import options_of
from mainstem.heads.zmq.settings import Frames, ZmqSettings
from mainstem.heads.zmq.subscriptions import Subscriptions

if TYPE_CHECKING:
    import asyncio
    import socket

_logger = logging.getLogger("mainstem.heads.zmq")

UNREAD_ANSWERS = 16
LOOK_MS = 2
LINGER_MS = 500
"""How long messages that PUSH has taken may still be sent when the server stops."""
_MORE = zmq.DONTWAIT | zmq.SNDMORE


class ZmqHead:
    """The ZeroMQ head while it runs."""

    def __init__(
        self, context: HeadContext, settings: ZmqSettings, listener: "socket.socket"
    ) -> None:
        self._context, self._settings = context, settings
        self.address = address_of(listener)
        self._listener = listener
        self._options = options_of(settings)
        self._transport = ZmqTransport(
            {
                zmq.LINGER: 0,
                zmq.HANDSHAKE_IVL: settings.handshake_ms,
                zmq.MAXMSGSIZE: settings.max_message_bytes,
                zmq.SNDHWM: settings.high_water_mark,
                zmq.RCVHWM: settings.high_water_mark,
                zmq.IPV6: int(":" in self.address.host),
            }
        )
        self.traffic = self._transport.traffic
        self._logins = Logins(context.auth)
        self._subscriptions = Subscriptions(context.auth, settings.max_subscriptions)
        self._tails: dict[str, LiveTail] = {}
        self._published: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._missed: Counter[str] = Counter()
        self._replays = Replays[list[bytes]](context, decode_request)
        self._collections: list[Collection] = []
        self._handovers: list[Handover] = []
        self._is_due = False
        self._closes: list[Callable[[], object]] = []

    def start(self) -> None:
        """Open all sockets; raises InvalidSetting, Unsupported, UnknownTopic, UnknownQueue."""
        asked = self._settings
        pulled = list(places(asked.pull, "zmq.pull"))
        collected = list(sources(asked.collect, "zmq.collect"))
        pushed = list(places(asked.push, "zmq.push", named=True))
        # Opened first, because libzmq sends a question about every peer to this socket.
        self._zap = self._transport.open(zmq.ROUTER, self._asked_for_login)
        self._zap.raw.bind(ADDRESS)
        self._publisher = self._open(
            zmq.XPUB,
            self._subscribed,
            {zmq.XPUB_MANUAL: 1, zmq.XPUB_NODROP: 1},
            identifies=True,
            # libzmq applies a decision to the subscription that was read last.
            per_turn=1,
        )
        at = publish_address(asked, self.address, "zmq.publish")
        self.publishes_at = self._transport.bind(self._publisher, at, "zmq.publish")
        self._router = self._open(
            zmq.ROUTER,
            self._requested,
            {
                zmq.ROUTER_MANDATORY: 1,
                zmq.SNDHWM: UNREAD_ANSWERS,
                zmq.MAXMSGSIZE: min(REQUEST_BYTES, asked.max_message_bytes),
            },
            identifies=True,
            # Each request reads the log; between these, the event loop must serve others.
            per_turn=4,
        )
        self._transport.serve(self._router, self._listener)
        create_topics(self._context, [*pulled, *collected])
        for each in pulled:
            self._pull(each)
        for each in collected:
            self._collect(each)
        for each in pushed:
            self._push(each)
        self._closes.append(self._context.broker.watch_topics(self._topics_changed))

    # Publishing

    def _subscribed(self, messages: list[Received]) -> None:
        for frames, user, host in messages:
            said = frames[0] if frames else b""
            if said[:1] == b"\x01":
                if self._subscriptions.add(said[1:], self._peer(user, host)):
                    self._publisher.raw.setsockopt(zmq.SUBSCRIBE, said[1:])
            elif said[:1] == b"\x00":
                self._subscriptions.remove(said[1:])
                if host:
                    self._publisher.raw.setsockopt(zmq.UNSUBSCRIBE, said[1:])
            else:
                self._subscriptions.refused += 1
        if not self._is_due:
            self._is_due = True
            # Once for all the subscriptions that a peer may send together.
            self._context.after(LOOK_MS, self._look)

    def _topics_changed(self) -> None:
        self._context.on_loop(self._look)

    def _look(self) -> None:
        self._is_due = False
        for each in self._tails.values():
            each.look()
        self._follow()

    def _follow(self) -> None:
        """Publish exactly the topics to which peers have subscribed."""
        wanted = self._subscriptions.wanted(each.name for each in self._context.broker.topics())
        for name in self._tails.keys() - wanted:
            self._stop(name)
        for name in wanted - self._tails.keys():
            outlet = _Publisher(self._publisher, name, self._settings.publish_frames)
            self._tails[name] = LiveTail(self._context, name, outlet, self._gone(name))

    def _gone(self, name: str) -> Callable[[MainstemError], None]:
        def gone(error: MainstemError) -> None:
            if not isinstance(error, UnknownTopic):
                _logger.error("topic %s is not published any more: %s", name, error)
            self._stop(name)

        return gone

    def _stop(self, name: str) -> None:
        tail = self._tails.pop(name, None)
        if tail is not None:
            tail.close()
            self._published[name] += tail.published
            self._dropped[name] += tail.dropped
            self._missed[name] += tail.missed

    # Replay

    def _requested(self, messages: list[Received]) -> None:
        for each in messages:
            # ROUTER inserts the peer's id as the first frame.
            at = 1 + envelope_of(each.frames[1:])
            envelope, asked = each.frames[:at], each.frames[at:]
            peer = self._peer(each.user, each.host)
            found = self._replays.answer(peer, asked, self.publishes_at.port)
            is_sent = self._router.send([*envelope, *encode_answer(found)])
            self._replays.answered(found, is_sent)

    # Collecting, and queues

    def _pull(self, place: Place) -> None:
        collection = self._collection(place)
        opened = self._open(zmq.PULL, self._collector(collection))
        collection.attach(opened.pause, opened.resume)
        self._transport.bind(opened, place.address, "zmq.pull")

    def _collect(self, place: Place) -> None:
        collection = self._collection(place)
        opened = self._transport.open(zmq.SUB, self._collector(collection))
        collection.attach(opened.pause, opened.resume)
        opened.raw.setsockopt(zmq.SUBSCRIBE, place.prefix.encode())
        opened.raw.connect(f"tcp://{place.address}")

    def _collection(self, place: Place) -> Collection:
        self._context.broker.topic(place.topic)
        found = Collection(self._context, place.topic)
        self._collections.append(found)
        return found

    def _collector(self, collection: Collection) -> Callable[[list[Received]], None]:
        def collect(messages: list[Received]) -> None:
            senders: dict[tuple[str, str], list[Event]] = {}
            for frames, user, host in messages:
                senders.setdefault((user, host), []).append(event_of(frames))
            for (user, host), events in senders.items():
                collection.add(self._context.door(self._peer(user, host)), events)

        return collect

    def _push(self, place: Place) -> None:
        opened = self._open(zmq.PUSH, None)
        at = self._transport.bind(opened, place.address, "zmq.push")

        def send(event: Event) -> bool:
            value = event.value or b""
            return opened.send([value] if event.key is None else [event.key, value])

        queue = place.topic, place.name
        self._handovers.append(Handover(self._context, queue, f"zmq:{at}", opened, send))

    # Peers

    def _open(
        self,
        kind: int,
        receive: Callable[[list[Received]], None] | None,
        options: dict[int, int | bytes] | None = None,
        *,
        identifies: bool | None = None,
        per_turn: int = 256,
    ) -> ZmqSocket:
        chosen = identifies if identifies is not None else not self._context.auth.allows_all
        return self._transport.open(
            kind,
            receive,
            {**self._options, **(options or {})},
            identifies=chosen,
            per_turn=per_turn,
        )

    def _asked_for_login(self, messages: list[Received]) -> None:
        for each in messages:
            is_full = self.traffic.open > self._settings.max_connections
            answered = self._logins.answer(each.frames[2:], is_full=is_full)
            self.traffic.refused += is_full
            self._zap.send([*each.frames[:2], *answered])

    def _peer(self, user: str, host: str) -> Peer:
        peer = self._context.auth.peer(f"{host}:0")
        return Peer(peer.address, Principal(user)) if user else peer

    # Called by the node

    def connections(self) -> Sequence[ConnectionInfo]:
        """Return the connected peers."""
        return self._transport.connections()

    def samples(self) -> Iterator[tuple[Metric, Sample]]:
        """Yield the head's metrics with their values."""
        tails = self._tails.copy()
        for name in {*tails, *self._published}:
            tail = tails.get(name)
            now = (tail.published, tail.dropped, tail.missed) if tail else (0, 0, 0)
            yield metrics.COMMON.published, ((name,), self._published[name] + now[0])
            yield metrics.DROPPED, ((name,), self._dropped[name] + now[1])
            yield metrics.COMMON.missed, ((name,), self._missed[name] + now[2])
        yield metrics.SUBSCRIPTIONS, ((), self._subscriptions.count)
        yield metrics.REFUSED, ((), self._subscriptions.refused)
        counted: list[Counted] = [self._replays, *self._collections, *self._handovers]
        for each in counted:
            yield from each.samples(metrics.COMMON)
        for outcome, count in list(self._logins.outcomes.items()):
            yield metrics.LOGINS, ((outcome,), count)

    async def drain(self, within_s: float, hurry: "asyncio.Event") -> None:
        """Answer the requests that have arrived, then stop; messages get a moment to leave."""
        await quiet(self.traffic, within_s, hurry)
        await self._end(min(LINGER_MS, int(within_s * 1000)))

    async def close(self) -> None:
        """Close all sockets at once."""
        await self._end(0)

    async def _end(self, linger_ms: int) -> None:
        for end in self._closes:
            end()
        self._closes.clear()
        for name in list(self._tails):
            self._stop(name)
        for each in self._handovers:
            each.close()
        self._listener.close()
        await self._transport.close(linger_ms)


class _Publisher:
    """Publishes events of one topic to PUB."""

    def __init__(self, opened: ZmqSocket, topic: str, frames: Frames) -> None:
        self._socket = opened
        # The C method: what pyzmq adds to it in Python would double the time.
        self._send = super(zmq.Socket, opened.raw).send
        self._subject = f"{topic}/".encode()
        self._write = self._send_one if frames is Frames.ONE else self._send_three

    def publish(self, event: Event, after: int) -> bool:
        """Publish an event; False if a subscriber to it has no room, so that nobody gets it."""
        try:
            self._socket.traffic.bytes_out += self._write(event, after)
        except zmq.Again:
            return False
        finally:
            self._socket.check()
        return True

    def publish_anyway(self, event: Event, after: int) -> None:
        """Publish an event to the subscribers that have room, and drop it for the others."""
        self._socket.raw.setsockopt(zmq.XPUB_NODROP, 0)
        self.publish(event, after)
        self._socket.raw.setsockopt(zmq.XPUB_NODROP, 1)

    def _send_one(self, event: Event, after: int) -> int:
        data = encode_after(self._subject, event, after)
        self._send(data, zmq.DONTWAIT)
        return len(data)

    def _send_three(self, event: Event, after: int) -> int:
        send, value, details = self._send, event.value or b"", details_of(event, after)
        send(subject_of(event) if event.key else self._subject, _MORE)
        send(value, _MORE)
        send(details, zmq.DONTWAIT)
        return len(value) + len(details) + len(self._subject)
