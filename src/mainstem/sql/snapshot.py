"""Snapshots: which events a query reads, as a text with which it can be run again.

``orders~1a2b3c4d:0=0-120,1=5-99/views~…``: each topic, the beginning of its id, and the range of
offsets in each partition. By the id, a topic that was deleted and created again is recognised.
"""

import re

import msgspec

from mainstem.core.errors import InvalidSetting
from mainstem.sql.worker_messages import Span

ID_LENGTH = 8
_TOPIC = re.compile(r"([^~/:]+)~([0-9a-f]*):((?:\d+=\d+-\d+)(?:,\d+=\d+-\d+)*)?")


class TopicSnapshot(msgspec.Struct, frozen=True):
    """The offset ranges of one topic in a snapshot, and the beginning of the topic's id."""

    id: str
    spans: tuple[Span, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """The events that a query reads: offset ranges by topic."""

    topics: dict[str, TopicSnapshot]

    def __str__(self) -> str:
        return "/".join(
            f"{name}~{topic.id}:"
            + ",".join(f"{span.partition}={span.start}-{span.end}" for span in topic.spans)
            for name, topic in self.topics.items()
        )

    @property
    def events(self) -> int:
        """The number of offsets in the snapshot: at least as many as there are events."""
        return sum(span.end - span.start for each in self.topics.values() for span in each.spans)

    def after(self, earlier: "Snapshot") -> "Snapshot":
        """Return for each partition the offset range after that of an earlier snapshot."""
        topics = {}
        for name, topic in self.topics.items():
            known = earlier.topics.get(name)
            ends = {span.partition: span.end for span in known.spans} if known else {}
            topics[name] = TopicSnapshot(
                topic.id,
                tuple(
                    Span(each.partition, max(each.start, ends.get(each.partition, 0)), each.end)
                    for each in topic.spans
                ),
            )
        return Snapshot(topics)


def parse(text: str) -> Snapshot:
    """Parse a snapshot from the text that ``str`` returned; raises InvalidSetting."""
    topics = {}
    for part in text.strip().split("/"):
        found = _TOPIC.fullmatch(part)
        if found is None:
            raise InvalidSetting(f"{part!r:.100} is no snapshot as printed with a result")
        name, topic_id, listed = found.groups()
        spans = [_span(each) for each in (listed or "").split(",") if each]
        topics[name] = TopicSnapshot(topic_id, tuple(spans))
    return Snapshot(topics)


def _span(text: str) -> Span:
    partition, start, end = (int(number) for number in re.split("[=-]", text))
    if start > end:
        raise InvalidSetting(f"snapshot: partition {partition} would end before it begins")
    return Span(partition, start, end)
