"""Changes of topics and configs on a failing disk are never reported as durable."""

import asyncio
import errno
from collections.abc import Awaitable, Callable

import pytest
from tests.faults.disk.disk_steps import allow, full_after, killed, opened, refuse
from tests.faults.disk.simulated_disk import SimFiles
from tests.heads.contexts import kafka_service

from mainstem.broker.broker import Broker
from mainstem.core.errors import UnknownTopic
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.conversation import Answer, Later
from mainstem.heads.kafka.head import KafkaConversation
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.client_codec import decode_response, encode_request
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.commits import (
    OFFSET_DELETE,
    OffsetDeletePartition,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteTopic,
)
from mainstem.kafka_protocol.messages.configs import (
    ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    AlterConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlter,
    IncrementalAlterConfigsRequest,
    IncrementalAlterResource,
)
from mainstem.kafka_protocol.messages.groups import DELETE_GROUPS, DeleteGroupsRequest
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataRequest, MetadataTopicName
from mainstem.kafka_protocol.messages.topics import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopic,
    CreateTopicsRequest,
    DeleteTopic,
    DeleteTopicsRequest,
)

_TOPIC, _GROUP = 2, 32


def alter(kind: int, name: str, setting: str, value: str) -> AlterConfigsRequest:
    return AlterConfigsRequest((AlterConfigsResource(kind, name, (AlterConfig(setting, value),)),))


def alter_some(kind: int, name: str, setting: str, value: str) -> IncrementalAlterConfigsRequest:
    entry = IncrementalAlter(setting, 0, value)
    return IncrementalAlterConfigsRequest((IncrementalAlterResource(kind, name, (entry,)),))


CREATE = CreateTopicsRequest((CreateTopic("new", 1, 1),))
NAME = MetadataRequest((MetadataTopicName(name="new"),), allow_auto_topic_creation=True)
CHANGES: list[tuple[Api, int, Wire]] = [
    (CREATE_TOPICS, 7, CREATE),
    (METADATA, 12, NAME),
    (DELETE_TOPICS, 6, DeleteTopicsRequest((DeleteTopic("old"),))),
    (CREATE_PARTITIONS, 3, CreatePartitionsRequest((CreatePartitionsTopic("old", 5, None),))),
    (ALTER_CONFIGS, 2, alter(_TOPIC, "old", "retention.ms", "1000")),
    (ALTER_CONFIGS, 2, alter(_GROUP, "g", "share.record.lock.duration.ms", "1234")),
    (INCREMENTAL_ALTER_CONFIGS, 1, alter_some(_TOPIC, "old", "retention.ms", "1000")),
    (
        INCREMENTAL_ALTER_CONFIGS,
        1,
        alter_some(_GROUP, "g", "share.record.lock.duration.ms", "1234"),
    ),
]
NAMES = ["create", "name", "delete", "grow", "alter", "alter-group", "some", "some-group"]
every_change = pytest.mark.parametrize(("api", "version", "body"), CHANGES, ids=NAMES)


class Place:
    """A broker with one topic on a simulated disk, whose commits are made by the test."""

    def __init__(self) -> None:
        self.files = SimFiles()
        self.log = opened(self.files)
        self.broker = Broker(self.log, lambda: 0)
        self.broker.create_topic("old")
        self.log.committer.commit()
        settings = TopicSettings(partitions=1)
        service = kafka_service(self.broker, lambda: 0, KafkaSettings(), settings)
        self._conversation = KafkaConversation(service, "peer")

    def ask(self, api: Api, version: int, body: Wire) -> Answer | Later:
        """Send a request."""
        pieces = encode_request(api, version, 1, "me", body)
        frame = b"".join(bytes(piece) for piece in pieces if isinstance(piece, bytes | memoryview))
        return self._conversation.handle(memoryview(bytearray(frame)))

    def shown(self) -> tuple[object, object]:
        """Return what the changes of these tests change."""
        return self.broker.topics(), self.broker.group_configs.shown("g")

    def fail(self) -> None:
        """Let the disk fail the next commit."""
        refuse(self.files, "sync", code=errno.EIO)
        self.log.committer.commit()


async def decoded(api: Api, version: int, answer: Answer | Later) -> Wire:
    """Return an answer that has been decided."""
    for _ in range(10):
        await asyncio.sleep(0)
    assert not isinstance(answer, Later) or answer.answer is not None
    found = answer.take() if isinstance(answer, Later) else answer
    data = b"".join(bytes(piece) for piece in found if isinstance(piece, bytes | memoryview))
    return decode_response(api, version, memoryview(data)[4:]).body


async def codes(api: Api, version: int, answer: Answer | Later) -> list[Code]:
    """Return the error code of each part of an answer."""
    body = await decoded(api, version, answer)
    for name in ("topics", "responses", "results"):
        if parts := getattr(body, name, None):
            return [Code(each.error_code) for each in parts]
    raise AssertionError(body)


@pytest.mark.parametrize("kind", ["cursors", "queue", "both"])
def test_the_deletion_of_a_group_is_answered_when_it_is_durable(kind: str) -> None:
    delete = (DELETE_GROUPS, 2, DeleteGroupsRequest(("g",)))

    async def test(place: Place) -> None:
        if kind != "queue":
            place.broker.commit("g", {("old", 0): 0})
        if kind != "cursors":
            place.broker.queues.create("old", "g")
        place.log.committer.commit()

        answer = place.ask(*delete)
        assert isinstance(answer, Later)
        assert answer.answer is None
        place.log.committer.commit()

        assert await codes(*delete[:2], answer) == [Code.NONE]
        again = place.ask(*delete)
        assert await codes(*delete[:2], again) == [Code.GROUP_ID_NOT_FOUND]

    in_place(test)


@pytest.mark.parametrize("fails", [False, True])
def test_the_deletion_of_a_cursor_is_answered_when_it_is_durable_or_never_will_be(
    fails: bool,
) -> None:
    wanted = OffsetDeleteTopic("old", (OffsetDeletePartition(0),))

    async def test(place: Place) -> None:
        place.broker.commit("g", {("old", 0): 0})
        place.log.committer.commit()

        answer = place.ask(OFFSET_DELETE, 0, OffsetDeleteRequest("g", (wanted,)))
        assert isinstance(answer, Later)
        assert answer.answer is None
        if fails:
            place.fail()
        else:
            place.log.committer.commit()

        found = await decoded(OFFSET_DELETE, 0, answer)
        assert isinstance(found, OffsetDeleteResponse)
        codes = [each.error_code for topic in found.topics for each in topic.partitions]
        expected = (Code.COORDINATOR_NOT_AVAILABLE, []) if fails else (Code.NONE, [Code.NONE])
        assert (found.error_code, codes) == expected

    in_place(test)


def in_place(test: Callable[[Place], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Place())

    asyncio.run(main())


@every_change
def test_a_change_is_answered_when_it_is_durable(api: Api, version: int, body: Wire) -> None:
    async def test(place: Place) -> None:
        answer = place.ask(api, version, body)
        assert isinstance(answer, Later)
        assert answer.answer is None

        place.log.committer.commit()

        assert await codes(api, version, answer) == [Code.NONE]

    in_place(test)


@every_change
def test_a_change_whose_commit_fails_is_not_called_done(api: Api, version: int, body: Wire) -> None:
    async def test(place: Place) -> None:
        was = place.shown()
        answer = place.ask(api, version, body)
        assert place.shown() != was

        place.fail()

        assert await codes(api, version, answer) == [Code.KAFKA_STORAGE_ERROR]
        assert place.shown() == was

    in_place(test)


@pytest.mark.parametrize(("api", "version", "body"), CHANGES[:2], ids=NAMES[:2])
def test_a_topic_whose_creation_failed_is_not_there(api: Api, version: int, body: Wire) -> None:
    async def test(place: Place) -> None:
        place.ask(api, version, body)
        assert [each.name for each in place.broker.topics()] == ["new", "old"]

        place.fail()

        assert [each.name for each in place.broker.topics()] == ["old"]
        with pytest.raises(UnknownTopic):
            place.broker.bounds("new", 0)
        again = place.ask(api, version, body)
        assert await codes(api, version, again) == [Code.KAFKA_STORAGE_ERROR]

    in_place(test)


@pytest.mark.parametrize("topic", ["new", "old"])
def test_a_disk_that_is_full_in_the_middle_leaves_what_was_there(topic: str) -> None:
    create = (CREATE_TOPICS, 7, CreateTopicsRequest((CreateTopic("new", 50, 1),)))
    grow = (
        CREATE_PARTITIONS,
        3,
        CreatePartitionsRequest((CreatePartitionsTopic("old", 50, None),)),
    )
    change = create if topic == "new" else grow

    async def test(place: Place) -> None:
        was = place.broker.topics()
        # What is appended first has room, and of the notes about 50 partitions a few.
        refuse(place.files, "allocate", "wal")

        refused = place.ask(*change)

        assert await codes(*change[:2], refused) == [Code.KAFKA_STORAGE_ERROR]
        assert place.broker.topics() == was
        everything = (METADATA, 12, MetadataRequest(None))
        assert await codes(*everything[:2], place.ask(*everything)) == [Code.NONE]
        allow(place.files)
        again = place.ask(*change)
        place.log.committer.commit()
        assert await codes(*change[:2], again) == [Code.NONE]
        assert place.broker.bounds(topic, 49).end == 0

    in_place(test)


def test_a_deletion_for_which_the_log_had_no_room_is_finished_when_there_is_some() -> None:
    delete = (DELETE_TOPICS, 6, DeleteTopicsRequest((DeleteTopic("old"),)))

    async def test(place: Place) -> None:
        # Cursors are forgotten before the events are deleted, and that takes space.
        place.broker.commit("g", {("old", 0): 0})
        place.log.committer.commit()
        gone = asyncio.Event()
        (partition,) = place.broker.topic("old").partitions
        place.log.watch(partition, 0, gone.set)
        asked = place.ask(*delete)
        full_after(place.files, 0)
        place.log.committer.commit()
        assert await codes(*delete[:2], asked) == [Code.NONE]
        assert not gone.is_set()

        allow(place.files)

        await asyncio.wait_for(gone.wait(), 60)
        assert partition not in {each.id for each in place.log.disk_partitions()}

    in_place(test)


def test_what_is_there_after_a_restart_can_be_used_or_created_again() -> None:
    async def test(place: Place) -> None:
        place.ask(CREATE_TOPICS, 7, CREATE)
        place.fail()

        broker = Broker(opened(killed(place.files)), lambda: 0)

        # Nobody can know what of a sync that failed has reached the disk.
        if not broker.topics("new"):
            broker.create_topic("new")
        assert broker.bounds("new", 0).end == 0

    in_place(test)
