"""Operations of the admin port on sources of webhooks.

Permissions: changes need ALTER on the cluster and WRITE on the source's topic; the others need
DESCRIBE on the cluster. A secret is returned only by the operation that generates it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mainstem.auth import CLUSTER, Action, Peer, Resource, ResourceKind
from mainstem.core.errors import Failure, MainstemError
from mainstem.heads.admin_operations import OperationFailed, operation
from mainstem.heads.webhooks.adapter.sources import Sources
from mainstem.heads.webhooks.endpoints import SigningSecret
from mainstem.heads.webhooks.operations import (
    ADD_SOURCE,
    LIST_SOURCES,
    REMOVE_SOURCE,
    SHOW_SOURCE,
    AddSource,
    ListSources,
    NameSource,
    SourceAdded,
    SourceInfo,
)
from mainstem.heads.webhooks.signatures import SYMMETRIC
from mainstem.heads.webhooks.sources import Source, SourceSettings

if TYPE_CHECKING:
    from mainstem.heads.webhooks.adapter.service import Service


class SourceOperations:
    """The admin port's operations on sources.

    Must not be called in the event loop: the operations wait for it.
    """

    def __init__(self, service: "Service", sources: Sources) -> None:
        self._service, self._sources = service, sources
        self._context = service.context

    @operation(LIST_SOURCES, "GET webhook-sources")
    def list(self, peer: Peer, _: ListSources) -> "Sequence[SourceInfo]":
        """List the sources of received webhooks."""
        self._authorize(peer, Action.DESCRIBE)
        return self._context.from_thread(lambda: [self._info(it) for it in self._sources])

    @operation(SHOW_SOURCE, "GET webhook-sources/{name}")
    def show(self, peer: Peer, asked: NameSource) -> SourceInfo:
        """Show a source."""
        self._authorize(peer, Action.DESCRIBE)
        return self._context.from_thread(lambda: self._info(self._sources.get(asked.name)))

    @operation(ADD_SOURCE, "POST webhook-sources")
    def add(self, peer: Peer, asked: AddSource) -> SourceAdded:
        """Add a source, or replace the definition of one."""
        self._authorize(peer, Action.ALTER)
        topic = Resource(ResourceKind.TOPIC, asked.topic)
        self._context.auth.authorize(peer.principal, Action.WRITE, topic)
        known = self._context.from_thread(lambda: self._sources.find(asked.name))
        if known is not None and not asked.replace:
            raise OperationFailed(
                Failure.EXISTS,
                f"there is a source {asked.name} already; choose another name, or replace it",
            )
        secrets, secret = tuple(map(SigningSecret, asked.secrets)), ""
        if not secrets and known is not None:
            secrets = known.secrets
        given = {each: getattr(asked, each) for each in SourceSettings.__struct_fields__}
        wanted = Source(
            **given,
            secrets=secrets or (SigningSecret("file:new"),),
            created_ms=self._context.now_ms(),
        )
        wanted.check()
        label = f"source-{asked.name}"
        if not secrets:
            reference, secret = self._service.secrets.generate(label, SYMMETRIC)
            wanted = msgspec.structs.replace(wanted, secrets=(SigningSecret(reference),))
        try:
            self._context.from_thread(lambda: self._sources.add(wanted)).wait()
        except MainstemError:
            if secret:
                self._service.secrets.delete(wanted.secrets[0].reference, label)
            raise
        return SourceAdded(self.show(peer, NameSource(name=asked.name)), secret)

    @operation(REMOVE_SOURCE, "DELETE webhook-sources/{name}")
    def remove(self, peer: Peer, asked: NameSource) -> None:
        """Remove a source; its topic and events stay."""
        self._authorize(peer, Action.ALTER)
        self._context.from_thread(lambda: self._sources.remove(asked.name)).wait()

    def _info(self, source: Source) -> SourceInfo:
        address = self._context.addresses.get("webhooks")
        return SourceInfo(
            name=source.name,
            url=f"http://{address}/hooks/{source.name}",
            topic=source.topic,
            scheme=source.scheme,
            secrets=source.secrets,
            header=source.header,
            id_header=source.id_header,
            tolerance_ms=source.tolerance_ms,
            window_ms=source.window_ms,
        )

    def _authorize(self, peer: Peer, action: Action) -> None:
        self._context.auth.authorize(peer.principal, action, CLUSTER)
