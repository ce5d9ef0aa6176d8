"""The feeds that a head serves, and the marks of their sessions: stored as definitions."""

import re
import struct
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from mainstem.broker.door import Durable, HeadDefinitions
from mainstem.core.errors import Failure, InvalidSetting, MainstemError
from mainstem.heads.addresses import Address, multicast_group
from mainstem.heads.moldudp64.codec import check_session
from mainstem.heads.moldudp64.numbering import Mark, merged
from mainstem.heads.moldudp64.settings import NONE

_FEEDS = "feed"
_MARK = struct.Struct(">QQ")
_DECLARED = re.compile(r"(\w+)=([\w.-]+)/(\d{1,6})@([\d.]+:\d+)(?:\+([\d.]+:\d+))?", re.ASCII)


class UnknownFeed(MainstemError):
    """There is no feed of that session."""

    failure = Failure.NOT_FOUND

    def __init__(self, session: str) -> None:
        super().__init__(
            f"there is no feed {session!r:.40}; list what is served (mainstem feed ls)"
        )
        self.session = session


class FeedExists(MainstemError):
    """The session's name is taken by another feed."""

    failure = Failure.EXISTS

    def __init__(self, session: str, topic: str, partition: int) -> None:
        super().__init__(
            f"session {session!r} is the feed of {topic}/{partition}, with other settings or "
            "another start; choose another session, as receivers go by its sequence numbers"
        )
        self.session = session


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
    """So that a topic of the same name that was created later is not taken for this one."""
    first_offset: int = 0
    """Where sequence number 1 is looked for."""
    end_offset: int | None = None
    """Where the session ends; None while it goes on."""

    def groups(self) -> list[Address]:
        """Return the addresses of the groups."""
        return [multicast_group(each) for each in (self.group, self.second_group) if each]

    def ended_at(self, offset: int) -> "Feed":
        """Return the feed with an end."""
        return msgspec.structs.replace(self, end_offset=offset)

    def is_like(self, other: "Feed") -> bool:
        """Tell whether both publish the same messages under the same numbers, to these groups."""
        here = (self.topic, self.partition, self.group, self.second_group, self.topic_id)
        there = (other.topic, other.partition, other.group, other.second_group, other.topic_id)
        return here == there


def checked(feed: Feed) -> Feed:
    """Return a feed whose session and groups are valid; raises InvalidSetting."""
    check_session(feed.session)
    feed.groups()
    return feed


def declared(text: str) -> Iterator[Feed]:
    """Yield the feeds of the setting ``moldudp64.feeds``; raises InvalidSetting."""
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
    """The stored feeds and marks of one head."""

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
        """Store a new feed, and where its session begins."""
        mark = _MARK.pack(1, feed.first_offset)
        return self._definitions.change(
            {
                (_FEEDS, feed.session): msgspec.json.encode(feed),
                (_marks_of(feed.session), "1"): mark,
            }
        )

    def set(self, feed: Feed) -> Durable:
        """Store a feed that has changed."""
        return self._definitions.set(_FEEDS, feed.session, msgspec.json.encode(feed))

    def delete(self, session: str) -> Durable:
        """Delete a feed with its marks."""
        kind = _marks_of(session)
        changes: dict[tuple[str, str], bytes | None] = {
            (kind, key): None for key in self._definitions.items(kind)
        }
        return self._definitions.change(changes | {(_FEEDS, session): None})

    def marks(self, session: str) -> list[Mark]:
        """Return the stored marks of a session, in order."""
        values = self._definitions.items(_marks_of(session)).values()
        return sorted(Mark(*_MARK.unpack(each)) for each in values)

    def add_mark(self, session: str, new: Mark, log_start: int) -> Durable:
        """Store a mark; delete those that it makes unnecessary, and those of deleted events."""
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


def _marks_of(session: str) -> str:
    return f"mark/{session}"
