"""Idempotency keys: a request that is repeated gets the answer of the first.

How this works: the append that publishes the events also stores the key, among the definitions of
this head, so after a crash both are there or neither. The offsets are not known before that append,
so the end of each partition just before it is stored. After a restart, each partition is searched
from there for the first event with the key in its headers; that is the first one of the request.
The partitions are chosen here, so that a repeated request divides its events in the same way.

Keys are kept for a day, and at most ``MAX_KEYS`` of them: new keys replace the oldest. A key
belongs to a user and a topic. A key that comes again with other events is refused, as the draft
standard says (draft-ietf-httpapi-idempotency-key-header).
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mainstem.auth import Action, Peer, Resource, ResourceKind
from mainstem.broker.door import (
    AT_ONCE,
    Door,
    Durable,
    HeadChanges,
    HeldPublish,
    PublishedAll,
    TopicEvents,
)
from mainstem.core.errors import InvalidEvent, MainstemError, UnknownPartition
from mainstem.core.event import Event, Position
from mainstem.core.partitioner import partition_for
from mainstem.heads.context import HeadContext
from mainstem.heads.http.formats.bodies import Parsed
from mainstem.heads.web.problem import Refused
from mainstem.heads.web.waits import until_durable, until_room

if TYPE_CHECKING:
    from mainstem.broker.door import HeadDefinitions

HEAD = "http"
KIND = "idempotency-key"
HEADER = "idempotency-key"
"""The header in which events store the key of their request."""
KEPT_MS = 86_400_000
MAX_KEYS = 50_000
MAX_KEY_LENGTH = 255
_MOST_SEARCHED = 10_000
"""Maximum number of events that are searched for a key after a restart."""
_EXPIRED_AT_ONCE = 100
"""Maximum number of old keys that are deleted when a new one is stored."""


class Kept(msgspec.Struct, frozen=True, tag_field="kind", tag="idempotency-key/1"):
    """The stored record of a key: what is needed to repeat the answer after a restart."""

    at_ms: int
    digest: bytes
    partitions: int
    """How many partitions the topic had."""
    keyless: int
    """The partition to which events without a key went."""
    ends: tuple[tuple[int, int], ...]
    """The end offset, before the append, of each partition that got events of the request."""


class _Known(NamedTuple):
    """A key and the offsets in its answer, which may be sent once ``durable`` is done."""

    kept: Kept
    offsets: dict[int, int]
    """The offset of the first event of the request, by partition."""
    durable: Durable


class _Request(NamedTuple):
    """A publish request with a key."""

    name: str
    """A hash of the key, the user and the topic, under which the key is stored."""
    key: str
    topic: str
    parsed: Parsed
    digest: bytes


class IdempotencyKeys:
    """The keys of earlier requests; only the event loop may call it."""

    def __init__(self, context: HeadContext, *, max_keys: int = MAX_KEYS) -> None:
        self._context, self._max_keys = context, max_keys
        self._known: dict[str, _Known] = {}
        self._ages: dict[str, int] | None = None
        """When each key was stored, the oldest first; None before the first use."""
        self._turn = 0

    async def publish(
        self, peer: Peer, door: Door, topic: str, parsed: Parsed, key: str
    ) -> list[Position]:
        """Publish events and return their positions; for a repeated key, the earlier positions."""
        if not 0 < len(key) <= MAX_KEY_LENGTH or not key.isprintable():
            raise InvalidEvent(f"an Idempotency-Key has 1 to {MAX_KEY_LENGTH} printable characters")
        context = self._context
        if not context.auth.allows_all:
            # The publish below also stores the key, which is the head's, not the user's: so it is
            # made with the head's permissions, and the user's are checked here.
            resource = Resource(ResourceKind.TOPIC, topic)
            context.auth.authorize(peer.principal, Action.WRITE, resource)
        owner = f"{door.topic(topic).id}/{peer.principal.name}"
        name = sha256(f"{owner}/{key}".encode()).hexdigest()
        request = _Request(name, key, topic, parsed, _digest(parsed))
        known = self._find(request)
        held: HeldPublish | None = None
        while known is None:
            appended = self._append(request, held)
            if isinstance(appended, HeldPublish):
                held = await until_room(context, set(), appended)
                # While this request waited, its repetition may have been appended.
                known = self._find(request)
            else:
                known = appended
        await until_durable(context, known.durable)
        return _positions(_divided(parsed, known.kept.partitions, known.kept.keyless), known)

    def _find(self, request: _Request) -> _Known | None:
        """Return the earlier request with this key, or None; raises Refused for other events."""
        known = self._known.get(request.name)
        if known is None:
            stored = self._definitions.get(KIND, request.name)
            if stored is None:
                return None
            kept = msgspec.json.decode(stored, type=Kept)
            offsets = {at: self._search(request, at, end) for at, end in kept.ends}
            known = self._known[request.name] = _Known(kept, offsets, AT_ONCE)
        if known.kept.at_ms < self._context.now_ms() - KEPT_MS:
            return None
        if known.kept.digest != request.digest:
            raise Refused(
                422,
                f"the Idempotency-Key {request.key!r} was used for other events: "
                "use a new key for each request, and the same only to repeat it",
            )
        return known

    def _append(self, request: _Request, held: HeldPublish | None) -> _Known | HeldPublish:
        """Publish the events and store the key, in one append."""
        broker, parsed, now_ms = self._context.broker, request.parsed, self._context.now_ms()
        count = len(broker.topic(request.topic).partitions)
        if parsed.partition is not None and parsed.partition >= count:
            raise UnknownPartition(request.topic, parsed.partition, count)
        self._turn += 1
        keyless = self._turn % count
        divided = _divided(parsed, count, keyless)
        ends = tuple((at, broker.bounds(request.topic, at).end) for at in divided)
        kept = Kept(now_ms, request.digest, count, keyless, ends)
        mark = (HEADER, request.key.encode())
        entries = [
            TopicEvents(request.topic, [_marked(parsed.events[each], mark) for each in places], at)
            for at, places in divided.items()
        ]
        old = self._outdated(now_ms)
        changes: dict[tuple[str, str], bytes | None] = {(KIND, each): None for each in old}
        changes[KIND, request.name] = msgspec.json.encode(kept)
        published = broker.publish_all(entries, held=held, defined=HeadChanges(HEAD, changes))
        if isinstance(published, HeldPublish):
            return published
        known = _Known(kept, _offsets(divided, published), published.durable)
        self._keep(request.name, known, old)
        return known

    def _keep(self, name: str, known: _Known, old: Sequence[str]) -> None:
        ages = self._stored_ages
        for each in old:
            ages.pop(each, None)
            self._known.pop(each, None)
        ages.pop(name, None)
        ages[name] = known.kept.at_ms
        self._known[name] = known

        def forget(error: MainstemError | None) -> None:
            if error is not None:
                self._context.on_loop(lambda: self._forget(name))

        known.durable.then(forget)

    def _forget(self, name: str) -> None:
        """Remove a key whose append failed."""
        self._known.pop(name, None)
        self._stored_ages.pop(name, None)

    def _outdated(self, now_ms: int) -> list[str]:
        """Return the keys to delete: older than a day, or the oldest of too many."""
        ages = self._stored_ages
        found: list[str] = []
        for name, at_ms in ages.items():
            many = len(ages) - len(found) >= self._max_keys
            if len(found) == _EXPIRED_AT_ONCE or not (many or at_ms < now_ms - KEPT_MS):
                break
            found.append(name)
        return found

    def _search(self, request: _Request, partition: int, end: int) -> int:
        """Return the offset of the first event with the key from ``end`` on, or else ``end``."""
        broker, mark = self._context.broker, (HEADER, request.key.encode())
        try:
            feed = broker.follow(request.topic, partition, end)
            seen = 0
            while seen < _MOST_SEARCHED and (events := feed.take()):
                for event in events:
                    if mark in event.headers:
                        return event.offset
                seen += len(events)
        except MainstemError:
            # Retention has deleted the events. ``end`` is then their offset, unless another thread
            # appended between the reading of ``end`` and the append of the key.
            return end
        return end

    @property
    def _definitions(self) -> "HeadDefinitions":
        return self._context.broker.definitions.open(HEAD)

    @property
    def _stored_ages(self) -> dict[str, int]:
        if self._ages is None:
            decode = msgspec.json.Decoder(Kept).decode
            stored = self._definitions.items(KIND).items()
            ages = sorted((decode(value).at_ms, name) for name, value in stored)
            self._ages = {name: at_ms for at_ms, name in ages}
        return self._ages


def _divided(parsed: Parsed, count: int, keyless: int) -> dict[int, list[int]]:
    """Return the indexes of a request's events, by the partition to which they go."""
    if parsed.partition is not None:
        return {parsed.partition: list(range(len(parsed.events)))}
    found: dict[int, list[int]] = {}
    for place, event in enumerate(parsed.events):
        partition = keyless if event.key is None else partition_for(event.key, count)
        found.setdefault(partition, []).append(place)
    return found


def _offsets(divided: dict[int, list[int]], published: PublishedAll) -> dict[int, int]:
    first = (each.position.offset for each in published.published)
    return dict(zip(divided, first, strict=True))


def _positions(divided: dict[int, list[int]], known: _Known) -> list[Position]:
    found = [Position(-1, -1)] * sum(map(len, divided.values()))
    for partition, places in divided.items():
        for delta, place in enumerate(places):
            found[place] = Position(partition, known.offsets[partition] + delta)
    return found


def _marked(event: Event, mark: tuple[str, bytes]) -> Event:
    return Event(event.value, event.key, (*event.headers, mark), event.timestamp_ms)


def _digest(parsed: Parsed) -> bytes:
    """Return a hash of all events of a request and their partition."""
    whole = [(it.value, it.key, it.headers, it.timestamp_ms) for it in parsed.events]
    return sha256(msgspec.msgpack.encode((parsed.partition, whole))).digest()
