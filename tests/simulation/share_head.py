"""The share group's part of the Kafka head in the simulated world: its own code, on a fake loop."""

import asyncio
from contextlib import suppress
from unittest.mock import patch

from tests.heads.contexts import kafka_service
from tests.simulation.fake_loop import Calls, Loop
from tests.simulation.share_group_model import GROUP, SETTINGS, ShareBook
from tests.simulation.world import Reply, World

from mainstem.broker.broker import Broker
from mainstem.core.errors import StorageFull
from mainstem.heads.conversation import Later
from mainstem.heads.kafka.adapter.apis import share_acknowledge, share_fetch, share_group_heartbeat
from mainstem.heads.kafka.adapter.service import Asked, Service
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.share_fetch import ShareAcknowledgeRequest, ShareFetchRequest
from mainstem.kafka_protocol.messages.share_groups import ShareGroupHeartbeatRequest
from mainstem.kafka_protocol.server_codec import RequestHeader

_LOCKS = "share.partition.max.record.locks"
Request = ShareGroupHeartbeatRequest | ShareFetchRequest | ShareAcknowledgeRequest


class Connection:
    """What a member and a server share until one of them has gone."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.waiting = Calls()
        """What the server calls when the connection is gone."""
        self.is_closed = False


class ShareHead:
    """The head, which begins anew after a crash, and the book of all that it did."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._loop = Loop(world)
        self.book = ShareBook(world)
        world.broker.group_configs.alter(GROUP, SETTINGS)
        world.after_crash.append(self._serve)
        world.every(700, self._alter)
        self._serve(world.broker)

    def _serve(self, broker: Broker) -> None:
        self._loop.is_dead = True
        self._loop = loop = Loop(self._world)
        with patch.object(asyncio, "get_running_loop", lambda: loop):
            now_ms = self._world.time_of_day_ms
            settings = KafkaSettings()
            self.service = kafka_service(broker, now_ms, settings)
        self.book.watch(broker)

    def _alter(self) -> None:
        """Give the group other settings while it goes on."""
        configs = self._world.broker.group_configs
        most = {"1000": "2000"}.get(configs.text(GROUP, _LOCKS), "1000")
        with suppress(StorageFull):
            configs.alter(GROUP, {_LOCKS: most})
            self._world.deeds["share: settings altered"] += 1

    def connect(self) -> Connection:
        """Open a connection to the server that is there."""
        return Connection(self.service)

    def hear(self, connection: Connection, request: Request, reply: Reply[Wire]) -> None:
        """Answer a request, unless its connection is gone."""
        if connection.is_closed or connection.service is not self.service:
            return

        def answer(body: Wire | None) -> None:
            # Who has gone is not answered.
            if body is not None:
                reply(body)

        header = RequestHeader(0, 2, 0, "simulated")
        asked = Asked(self.service, header, "127.0.0.1:1", connection.waiting, Later())
        match request:
            case ShareGroupHeartbeatRequest():
                share_group_heartbeat.answer(asked, request, answer)
            case ShareFetchRequest():
                share_fetch.answer(asked, request, answer)
            case _:
                share_acknowledge.answer(asked, request, answer)

    def lose(self, connection: Connection) -> None:
        """Notice that the other side of a connection is gone."""
        if connection.is_closed or connection.service is not self.service:
            return
        connection.is_closed = True
        self._world.deeds["share: connection lost"] += 1
        for call in list(connection.waiting):
            call()
