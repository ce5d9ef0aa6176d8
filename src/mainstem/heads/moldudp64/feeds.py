"""The stored feeds of the head, and the marks that record the numbers of their sessions."""

import re
import struct
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from mainstem.broker.door import Durable, HeadDefinitions
from mainstem.core.errors import Failure, InvalidSetting, MainstemError, Unsupported
from mainstem.core.topic_settings import Durability, TopicSettings
from mainstem.heads.addresses import NONE, Address, multicast_group
from mainstem.heads.moldudp64.codec import check_session
from mainstem.heads.moldudp64.numbering import Mark, merged

_FEEDS = "feed"
_MARK = struct.Struct(">QQ")
_DECLARED = re.compile(r"(\w+)=([\w.-]+)/(\d{1,6})@([\d.]+:\d+)(?:\+([\d.]+:\d+))?", re.ASCII)


class UnknownFeed(MainstemError, failure=Failure.NOT_FOUND):
    """No feed has this session."""

    def __init__(self, session: str) -> None:
        super().__init__(
            f"there is no feed {session!r:.40}; list what is served (mainstem feed ls)"
        )
        self.session = session


class FeedExists(MainstemError, failure=Failure.EXISTS):
    """Another feed has this session name."""

    def __init__(self, session: str, topic: str, partition: int) -> None:
        super().__init__(
            f"session {session!r} is the feed of {topic}/{partition}, with other settings or "
            "another start; choose another session, as receivers go by its sequence numbers"
        )
        self.session = session


class FeedUnsupported(Unsupported):
    """The topic cannot be a feed, or no longer with the numbers that its session has used."""

    def __init__(self, topic: str, why: str) -> None:
        super().__init__(f"topic {topic} cannot be a feed: {why}")


class Feed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A feed: a partition that is published as a session."""

    session: str
    topic: str
    partition: int
    group: str
    """The multicast group that packets are sent to, HOST:PORT."""
    second_group: str = ""
    """Another group for the same packets; empty for none."""
    topic_id: str = ""
    """The id of the topic, which differs for a topic of the same name that is created later."""
    first_offset: int = 0
    """The offset at which the session begins: sequence number 1 is the first message from there on.
    """
    end_offset: int | None = None
    """The offset at which the session ends; None while it goes on."""
    stores_numbers: bool = False
    """Whether all sequence numbers are stored, because not only the oldest events may be removed.
    """

    def groups(self) -> list[Address]:
        """Return the addresses of the multicast groups."""
        return [multicast_group(each) for each in (self.group, self.second_group) if each]

    def ended_at(self, offset: int) -> "Feed":
        """Return the feed with this end offset."""
        return msgspec.structs.replace(self, end_offset=offset)

    def check_topic(self, settings: TopicSettings) -> None:
        """Raise FeedUnsupported if the topic's settings do not allow this feed."""
        if settings.durability is Durability.MEMORY:
            raise FeedUnsupported(
                self.topic,
                "it is kept in memory only, so numbers would begin again after a restart",
            )
        if removes_between(settings) and not self.stores_numbers:
            raise FeedUnsupported(
                self.topic,
                f"since session {self.session} began, it was changed to compact or delete_acked, "
                "which removes events whose numbers were not stored; remove the feed, and serve "
                "the topic as another session",
            )

    def is_like(self, other: "Feed") -> bool:
        """Tell whether two feeds publish the same partition to the same groups."""
        here = (self.topic, self.partition, self.group, self.second_group, self.topic_id)
        there = (other.topic, other.partition, other.group, other.second_group, other.topic_id)
        return here == there


def removes_between(settings: TopicSettings) -> bool:
    """Tell whether events can be removed between others (by compaction or delete_acked)."""
    return settings.compact or settings.delete_acked


def checked(feed: Feed) -> Feed:
    """Return the feed unchanged; raises InvalidSetting for an invalid session or group."""
    check_session(feed.session)
    feed.groups()
    return feed


def declared(text: str) -> Iterator[Feed]:
    """Parse the setting ``moldudp64.feeds``; raises InvalidSetting."""
    if text == NONE:
        return
    for each in (part.strip() for part in text.split(",")):
        found = _DECLARED.fullmatch(each)
        if found is None:
            raise InvalidSetting(
                f"moldudp64.feeds: {each!r:.100} is not SESSION=TOPIC/PARTITION@GROUP:PORT"
            )
        session, topic, partition, group, second = found.groups(default="")
        yield checked(Feed(session, topic, int(partition), group, second))


class FeedDefinitions:
    """The stored feeds and marks of the head."""

    def __init__(self, definitions: HeadDefinitions) -> None:
        self._definitions = definitions

    def feeds(self) -> list[Feed]:
        """Return the feeds, sorted by session."""
        found = self._definitions.items(_FEEDS)
        return [msgspec.json.decode(found[session], type=Feed) for session in sorted(found)]

    def find(self, session: str) -> Feed | None:
        """Return the feed of a session, None if there is none."""
        found = self._definitions.get(_FEEDS, session)
        return None if found is None else msgspec.json.decode(found, type=Feed)

    def create(self, feed: Feed) -> Durable:
        """Store a new feed, with the mark of its first message."""
        first = Mark(1, feed.first_offset)
        kind, mark = _marks_of(feed.session), _MARK.pack(*first)
        if feed.stores_numbers:
            kind, mark = _numbers_of(feed.session), _encoded([first])
        return self._definitions.change(
            {(_FEEDS, feed.session): msgspec.json.encode(feed), (kind, "1"): mark}
        )

    def set(self, feed: Feed) -> Durable:
        """Store a feed whose definition has changed."""
        return self._definitions.set(_FEEDS, feed.session, msgspec.json.encode(feed))

    def delete(self, session: str) -> Durable:
        """Delete a feed with its marks."""
        changes: dict[tuple[str, str], bytes | None] = {
            (kind, key): None
            for kind in (_marks_of(session), _numbers_of(session))
            for key in self._definitions.items(kind)
        }
        return self._definitions.change(changes | {(_FEEDS, session): None})

    def marks(self, session: str) -> list[Mark]:
        """Return the stored marks of a session, in order."""
        values = self._definitions.items(_marks_of(session)).values()
        return sorted(Mark(*_MARK.unpack(each)) for each in values)

    def add_mark(self, session: str, new: Mark, log_start: int) -> Durable:
        """Store a mark; delete marks that it makes unnecessary, and marks of deleted events."""
        marks = self.marks(session)
        if marks and marks[-1] >= new:
            return self._definitions.change({})
        kept, unnecessary = merged(marks, new)
        gone = [each for each, after in pairwise(kept) if after[1] <= log_start]
        if unnecessary is not None:
            gone.append(unnecessary)
        kind = _marks_of(session)
        changes: dict[tuple[str, str], bytes | None] = {
            (kind, str(each.sequence)): None for each in gone
        }
        return self._definitions.change(changes | {(kind, str(new.sequence)): _MARK.pack(*new)})

    def numbers(self, session: str) -> list[Mark]:
        """Return the marks of a session that stores all its numbers, in order."""
        blocks = self._blocks(session)
        # A block ends with the mark of the message after it; the next block has its exact offset,
        # and replaces that mark here.
        found = {mark.sequence: mark for each in sorted(blocks) for mark in _decoded(blocks[each])}
        return list(found.values())

    def set_numbers(self, session: str, marks: list[Mark], log_start: int) -> Durable:
        """Store a block of marks; it replaces the block that begins with the same sequence number.

        If there is none, blocks that are only about deleted events are deleted.
        """
        kind, key = _numbers_of(session), str(marks[0].sequence)
        changes: dict[tuple[str, str], bytes | None] = {(kind, key): _encoded(marks)}
        if self._definitions.get(kind, key) is None:
            blocks = self._blocks(session)
            for first in sorted(blocks):
                if _decoded(blocks[first])[-1].offset > log_start:
                    break
                changes[kind, str(first)] = None
        return self._definitions.change(changes)

    def _blocks(self, session: str) -> dict[int, bytes]:
        found = self._definitions.items(_numbers_of(session))
        return {int(key): value for key, value in found.items()}


def _marks_of(session: str) -> str:
    return f"mark/{session}"


def _numbers_of(session: str) -> str:
    return f"numbers/{session}"


def _encoded(marks: list[Mark]) -> bytes:
    """Encode marks as the differences between them, which take fewer bytes."""
    numbers = [*marks[0]]
    for before, mark in pairwise(marks):
        numbers += [mark.sequence - before.sequence, mark.offset - before.offset]
    return msgspec.msgpack.encode(numbers)


def _decoded(data: bytes) -> list[Mark]:
    numbers = iter(msgspec.msgpack.decode(data, type=list[int]))
    sequence = offset = 0
    found = list[Mark]()
    for more, further in zip(numbers, numbers, strict=True):
        sequence, offset = sequence + more, offset + further
        found.append(Mark(sequence, offset))
    return found
