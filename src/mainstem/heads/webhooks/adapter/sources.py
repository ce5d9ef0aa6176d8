"""All sources: their definitions and secrets; verifies and appends the webhooks that they send."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from mainstem.auth import Action, Resource, ResourceKind
from mainstem.broker.door import Durable, HeldPublish, TopicEvents
from mainstem.core.errors import Failure, InvalidSetting, UnknownTopic
from mainstem.core.event import Event, Headers
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.web.waits import until_durable, until_room
from mainstem.heads.webhooks.adapter.received_ids import ReceivedIds
from mainstem.heads.webhooks.sources import Source
from mainstem.heads.webhooks.verification import NotVerified, Received, check_secret, verify

if TYPE_CHECKING:
    from mainstem.auth import Peer
    from mainstem.heads.webhooks.adapter.service import Service

SOURCE = "source"
"""The kind of the stored definitions."""
MAX_SOURCES = 10_000
ID_HEADER, SOURCE_HEADER = "webhook-id", "webhook-source"
"""Headers that are added to the event of a webhook."""
_KEPT = (
    "content-type",
    "x-github-event",
    "x-github-delivery",
    "x-slack-retry-num",
    "webhook-timestamp",
)
"""Headers of a request that its event gets; none of them contains a signature or token."""
_CLOUDEVENT = "ce-"


class UnknownSource(OperationFailed):
    """No source has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            Failure.NOT_FOUND,
            f"there is no source {name!r:.120}; list what exists (mainstem webhook source ls)",
        )


class Sources:
    """The sources of a node; only the event loop may call it."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._definitions = service.definitions
        self._ids = ReceivedIds(service)
        self._sources: dict[str, Source] = {}
        self._secrets: dict[str, list[tuple[int | None, str]]] = {}

    def start(self) -> None:
        """Read the stored sources, and the ids of received webhooks."""
        decode = msgspec.json.Decoder(Source).decode
        for name, value in self._definitions.items(SOURCE).items():
            self._sources[name] = decode(value)
        self._ids.start()

    def __iter__(self) -> Iterator[Source]:
        return iter(sorted(self._sources.values(), key=lambda each: each.name))

    def get(self, name: str) -> Source:
        """Return a source; raises UnknownSource."""
        if (found := self.find(name)) is None:
            raise UnknownSource(name)
        return found

    def find(self, name: str) -> Source | None:
        """Return a source; None if there is none of this name."""
        return self._sources.get(name)

    def add(self, source: Source) -> Durable:
        """Add a source, or replace the definition of one."""
        source.check()
        if source.name not in self._sources and len(self._sources) >= MAX_SOURCES:
            raise InvalidSetting(f"there are {MAX_SOURCES} sources already, which is the limit")
        secrets = self._read(source)
        self._create_topic(source.topic)
        durable = self._definitions.set(SOURCE, source.name, msgspec.json.encode(source))
        self._sources[source.name], self._secrets[source.name] = source, secrets
        return durable

    def remove(self, name: str) -> Durable:
        """Remove a source and its generated secrets; its topic and events stay."""
        source = self.get(name)
        durable = self._definitions.delete(SOURCE, name)
        del self._sources[name]
        self._secrets.pop(name, None)
        for secret in source.secrets:
            self._service.secrets.delete(secret.reference, f"source-{name}")
        return durable

    async def receive(
        self, name: str, headers: Mapping[str, str], body: bytes, peer: "Peer"
    ) -> Received:
        """Verify a request and append its event; return once it is durable.

        Raises NotVerified, and the errors of the broker; then nothing was appended. A duplicate is
        not appended either.
        """
        source = self.get(name)
        received = self._counted(source, headers, body)
        if received.challenge is not None:
            return received
        event = Event(body, None, _event_headers(source, received, headers))
        durable = await self._append(source, received, event, peer)
        await until_durable(self._service.context, durable)
        return received

    def _counted(self, source: Source, headers: Mapping[str, str], body: bytes) -> Received:
        now_ms = self._service.context.now_ms()
        if source.name not in self._secrets:
            self._secrets[source.name] = self._read(source)
        secrets = [
            it for until, it in self._secrets[source.name] if until is None or now_ms < until
        ]
        try:
            return verify(source, secrets, headers, body, now_ms)
        except NotVerified as error:
            self._service.counts.received[error.reason] += 1
            raise

    async def _append(
        self, source: Source, received: Received, event: Event, peer: "Peer"
    ) -> Durable:
        service = self._service
        context, counts = service.context, service.counts
        # The topic of ids is the head's own, so the peer needs only WRITE on the source's topic.
        topic = Resource(ResourceKind.TOPIC, source.topic)
        context.auth.authorize(peer.principal, Action.WRITE, topic)
        held: HeldPublish | None = None
        while True:
            # Looked up again after a wait, as the same message may have come by another request.
            before = self._ids.find(source.name, received.id, source.window_ms)
            if received.id and before is not None:
                counts.received["duplicate"] += 1
                return before
            entries = [TopicEvents(source.topic, [event])]
            if received.id and source.window_ms:
                entries.append(self._ids.entry(source.name, received.id))
            found = context.broker.publish_all(entries, held=held)
            if not isinstance(found, HeldPublish):
                break
            held = await until_room(context, set(), found)
        if received.id and source.window_ms:
            self._ids.add(source.name, received.id, found.durable)
        counts.received["appended"] += 1
        return found.durable

    def _create_topic(self, name: str) -> None:
        context = self._service.context
        try:
            context.broker.topic(name)
        except UnknownTopic:
            if not context.auto_create:
                raise
            context.broker.create_topic(name, context.defaults)

    def _read(self, source: Source) -> list[tuple[int | None, str]]:
        now_ms = self._service.context.now_ms()
        found: list[tuple[int | None, str]] = []
        for secret in source.secrets:
            if secret.until_ms is None or now_ms < secret.until_ms:
                text = self._service.secrets.read(secret.reference)
                check_secret(source.scheme, text)
                found.append((secret.until_ms, text))
        return found


def _event_headers(source: Source, received: Received, headers: Mapping[str, str]) -> Headers:
    kept = [
        (name.replace(_CLOUDEVENT, "ce_", 1) if name.startswith(_CLOUDEVENT) else name, value)
        for name, value in headers.items()
        if name in _KEPT or name.startswith(_CLOUDEVENT)
    ]
    own = [(SOURCE_HEADER, source.name)]
    if received.id:
        own.append((ID_HEADER, received.id))
    return tuple((name, value.encode("utf-8", "replace")) for name, value in [*own, *kept])
