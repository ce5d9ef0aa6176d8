"""Topics in requests: finds them by name or id, creates them on first use, rejects duplicates."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from mainstem.broker.door import AT_ONCE, Topic, TopicDone
from mainstem.core.errors import MainstemError, TopicExists, UnknownTopic
from mainstem.core.names import is_internal
from mainstem.heads.kafka.adapter.durable_replies import Results
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.service import Service
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import NO_ID

NAMED_TWICE = "it is named more than once"
T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")
Wrong = tuple[Code, str] | None
"""The error code and message of an invalid request; None if the request is valid."""


def name_of(service: Service, topic_id: bytes) -> str | None:
    """Return the name of the topic with this id, None if there is none.

    Permissions are checked later, by the operation on the topic.
    """
    return service.topic_name(topic_id)


def id_of(topic: Topic) -> bytes:
    """Return the id of a topic as bytes; NO_ID for an internal topic without an id."""
    return bytes.fromhex(topic.id) if topic.id else NO_ID


def id_or_none(service: Service, topic: str) -> bytes:
    """Return the id of the topic of this name, NO_ID if it does not exist."""
    try:
        return id_of(service.broker.topic(topic))
    except MainstemError:
        return NO_ID


def find_or_create(service: Service, name: str, *, create: bool) -> TopicDone:
    """Return the topic of this name; create it if it does not exist and auto-creation is on."""
    try:
        return TopicDone(service.broker.topic(name), AT_ONCE)
    except UnknownTopic:
        if not (create and service.auto_create) or is_internal(name):
            raise
    settings = service.defaults.altered(partitions=service.settings.auto_create_partitions)
    try:
        return service.broker.create_topic(name, settings)
    except TopicExists:
        return TopicDone(service.broker.topic(name), AT_ONCE)


def named_once(asked: Sequence[T], name: Callable[[T], K]) -> tuple[list[T], list[K]]:
    """Return the items whose name occurs once, and the names that occur several times."""
    counts = Counter(map(name, asked))
    return [it for it in asked if counts[name(it)] == 1], [it for it in counts if counts[it] > 1]


class Named(Protocol):
    """A topic in a request."""

    @property
    def name(self) -> str:
        """The topic's name."""


NamedT = TypeVar("NamedT", bound=Named)


def each_once(
    asked: Sequence[NamedT],
    decide: Callable[[NamedT], None],
    results: Results[R],
    refused: Callable[[str, Code, str], R],
) -> None:
    """Call ``decide`` with each topic that is named once, and add the results of the others.

    ``refused``: makes the result of a topic that is named twice, or for which ``decide`` raises.
    """
    once, twice = named_once(asked, lambda each: each.name)
    for name in twice:
        results.add(refused(name, Code.INVALID_REQUEST, NAMED_TWICE))
    for each in once:
        try:
            decide(each)
        except MainstemError as error:
            results.add(refused(each.name, code_of(error), str(error)))


def misplaced(places: Iterable[Sequence[int]]) -> Wrong:
    """Return error code and text unless each partition is assigned to one broker, else None."""
    # Any broker id is accepted: there is one broker, and scripts need not know its id.
    if any(len(each) != 1 or min(each) < 0 for each in places):
        return Code.INVALID_REPLICA_ASSIGNMENT, "every partition has one copy, on one broker"
    return None
