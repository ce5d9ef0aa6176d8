"""One of two servers that are asked the same: its topics, and requests in few words.

A scenario is a function of a side that yields what a client is told, in words and numbers that
do not depend on the server: codes, counts, offsets, and epochs where they follow from the requests.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from tests.heads.kafka.raw_peers import Peer, produce
from tests.heads.server_process import PATIENCE_S

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.commits import (
    OFFSET_FETCH,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from mainstem.kafka_protocol.messages.consumer_groups import OwnedPartitions
from mainstem.kafka_protocol.messages.membership import (
    FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from mainstem.kafka_protocol.messages.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataTopicName,
)
from mainstem.kafka_protocol.messages.offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from mainstem.kafka_protocol.messages.share_groups import SharePartitions
from mainstem.kafka_protocol.messages.topics import (
    CREATE_TOPICS,
    CreateConfig,
    CreateTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

EVENTS = 10
"""In every partition of every topic."""
GROUPS, TRANSACTIONS = 0, 1
"""What a coordinator is looked for for."""
_NOT_YET = (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, 16)
_NOT_LED_YET = (Code.NOT_LEADER_OR_FOLLOWER, Code.UNKNOWN_TOPIC_OR_PARTITION)
_RUN = uuid.uuid4().hex[:8]
"""Part of all names, so that a server may be asked by many runs."""

Said = object
Scenario = Callable[["Side"], Iterator[Said]]
R = TypeVar("R", bound=Wire)
S = TypeVar("S", bound=Scenario)

ALIKE: list[Scenario] = []
"""Scenarios in which both sides say the same."""
UNLIKE: dict[Scenario, str] = {}
"""Those in which they do not, on purpose, and why."""


def alike(scenario: S) -> S:
    """Have a scenario tried: both sides must say the same."""
    ALIKE.append(scenario)
    return scenario


def unlike(reason: str) -> Callable[[S], S]:
    """Have a scenario tried in which we differ on purpose, so that it is found if we no more do."""

    def add(scenario: S) -> S:
        UNLIKE[scenario] = reason
        return scenario

    return add


class Topic(NamedTuple):
    """A topic of one side."""

    name: str
    id: bytes


class Side:
    """A server, and a connection to it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.peer = Peer(address)
        self._groups = self._topics = 0
        self._coordinate()
        self.one = self.topic("one", batches=1)
        """One partition, ten events in one batch."""
        self.two = self.topic("two", partitions=2, batches=1)
        """Two partitions, ten events in one batch each."""
        self.single = self.topic("single", batches=EVENTS)
        """One partition, ten batches of one event."""
        self.written = self.topic("written", partitions=3, batches=1)
        """Three partitions, for scenarios that write: the others are as they are said to be."""

    def close(self) -> None:
        self.peer.socket.close()

    @contextlib.contextmanager
    def another(self) -> Iterator[Peer]:
        """Connect once more."""
        with Peer(self.address) as found:
            yield found

    def ask(self, api: Api, body: Wire, expected: type[R], *, version: int = -1) -> R:
        """Ask in the last version of an API, if not in another."""
        return self.peer.ask(api, api.last if version < 0 else version, body, expected)

    def group(self) -> str:
        """Return a name that no group has yet, once the server knows who keeps it."""
        self._groups += 1
        name = f"group-{_RUN}-{self._groups}"

        def is_kept() -> bool:
            body = OffsetFetchRequest(groups=[OffsetFetchGroup(name, topics=None)])
            answer = self.ask(OFFSET_FETCH, body, OffsetFetchResponse)
            return answer.groups[0].error_code not in _NOT_YET

        until(is_kept)
        return name

    def partitions(self, topic: Topic) -> int:
        """Return how many partitions a topic of ours has."""
        return 2 if topic == self.two else 1

    def _coordinate(self) -> None:
        """Have groups and transactions kept: Apache Kafka begins to when it is asked who does."""

        def is_found(kind: int) -> bool:
            body = FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"])
            answer = self.ask(FIND_COORDINATOR, body, FindCoordinatorResponse)
            return answer.coordinators[0].error_code == 0

        for kind in (GROUPS, TRANSACTIONS):
            until(partial(is_found, kind))

    def name(self, word: str = "topic") -> str:
        """Return a name that no topic has yet."""
        self._topics += 1
        return f"{word}-{_RUN}-{self._topics}"

    def topic(
        self, name: str = "topic", *, partitions: int = 1, batches: int = 0, **configs: str
    ) -> Topic:
        """Create a topic with ten events in every partition, or none; wait until it is led.

        Settings are named as in Apache Kafka, with underscores.
        """
        name = self.name(name)
        named = [CreateConfig(each.replace("_", "."), value) for each, value in configs.items()]
        topic = CreateTopic(name, partitions, 1, configs=named)
        self.ask(CREATE_TOPICS, CreateTopicsRequest([topic]), CreateTopicsResponse)
        asked = MetadataRequest([MetadataTopicName(name=name)])

        def is_led() -> bool:
            (found,) = self.ask(METADATA, asked, MetadataResponse).topics
            led = [each for each in found.partitions if not each.error_code]
            return not found.error_code and len(led) == partitions

        until(is_led)
        # What is older than a week Apache Kafka deletes when it comes to it.
        now_ms = time.time_ns() // 1_000_000
        events = [Event(b"%d" % at) for at in range(EVENTS // max(1, batches))]
        batch = bytes(build(events, now_ms=now_ms))

        def is_put(number: int) -> bool:
            code = produce(self.peer, name, batch, number).error_code
            assert code in (Code.NONE, *_NOT_LED_YET), code
            return not code

        def is_read(number: int) -> bool:
            asked = ListOffsetsTopic(name, [ListOffsetsPartition(number, -1, -1)])
            body = ListOffsetsRequest(-1, 0, [asked])
            answer = self.ask(LIST_OFFSETS, body, ListOffsetsResponse)
            return not answer.topics[0].partitions[0].error_code

        for number in range(partitions):
            until(partial(is_read, number))
            for _ in range(batches):
                until(partial(is_put, number))
        (found,) = self.ask(METADATA, asked, MetadataResponse).topics
        return Topic(name, found.topic_id)


def until(condition: Callable[[], bool]) -> None:
    """Ask again until it is so: Apache Kafka does some things a moment after it has said so."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"


def word(code: int) -> str:
    """Return a code by its name, as a reader of a failed test wants it."""
    return Code(code).name if code in set(Code) else f"code {code}"


def count(topics: Sequence[SharePartitions] | Sequence[OwnedPartitions]) -> int:
    """Return how many partitions are assigned."""
    return sum(len(each.partitions) for each in topics)
