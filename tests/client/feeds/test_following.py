"""TopicFeed over a wire that loses, repeats and reorders live events: each comes once, in order."""

from collections import deque
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.client.feeds.following import FeedPatience, TopicFeed
from mainstem.core.event import Event
from mainstem.heads.brokerless.codec import (
    Answer,
    BoundsOf,
    Events,
    Published,
    Replay,
    Request,
    TopicBounds,
)

PORTION = 3


class Wire:
    """A partition that grows while it is followed; there are gaps between its offsets."""

    address = "tcp://a.test:1"

    def __init__(self, offsets: list[int], there: int, sent: list[int]) -> None:
        """``there``: how many events are in the log from the start.

        ``sent``: how often each of the others is sent live when it is published; 0 if it is lost.
        """
        befores = [0, *(each + 1 for each in offsets)]
        every = [
            Published(Event(b"%d" % offset, topic="t", partition=0, offset=offset), after)
            for offset, after in zip(offsets, befores, strict=False)
        ]
        self._log, self._later = every[:there], deque(zip(every[there:], sent, strict=False))
        self._answers = deque[Answer]()

    @property
    def _tail(self) -> int:
        return self._log[-1].event.offset + 1 if self._log else 0

    def ask(self, request: Request) -> None:
        if isinstance(request, BoundsOf):
            self._answers.append(TopicBounds("t", 1, ((0, self._tail),)))
            return
        assert isinstance(request, Replay)
        there = [each for each in self._log if each.event.offset >= request.offset]
        found = tuple(there[:PORTION])
        is_all = len(found) == len(there)
        following = max(self._tail, request.offset) if is_all else found[-1].event.offset + 1
        self._answers.append(Events("t", 0, request.offset, following, self._tail, found))

    def subscribe(self, topic: str, port: int) -> None:
        pass

    def receive(self, wait_s: float) -> Iterator[Answer | Published]:
        if self._later and not self._answers:
            published, times = self._later.popleft()
            self._log.append(published)
            yield from [published] * times
        if self._answers:
            yield self._answers.popleft()

    def close(self) -> None:
        pass


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_event_is_delivered_once_and_in_order(data: st.DataObject) -> None:
    offsets = sorted(data.draw(st.sets(st.integers(0, 30), min_size=1, max_size=15)))
    there = data.draw(st.integers(0, len(offsets)))
    later = len(offsets) - there
    sent = data.draw(st.lists(st.integers(0, 2), min_size=later, max_size=later))
    start = data.draw(st.integers(0, offsets[there - 1] + 1 if there else 0))
    expected = [each for each in offsets if each >= start]

    with TopicFeed(
        Wire(offsets, there, sent), "t", start={0: start}, patience=FeedPatience(check_s=0.01)
    ) as feed:
        found = [feed.poll(10) for _ in expected]
        assert feed.poll(0.01) is None

    assert [getattr(each, "offset", None) for each in found] == expected


def test_a_gap_in_the_live_events_is_requested() -> None:
    wire = Wire([0, 1, 2, 3, 4, 5], 3, [1, 0, 1])

    with TopicFeed(wire, "t") as feed:
        assert [getattr(feed.poll(10), "offset", None) for _ in range(6)] == list(range(6))
        report = feed.report()

    assert report.gaps == 1
    assert (report.delivered, report.recovered, report.lost) == (6, 5, 0)


def test_live_events_are_not_requested_while_none_is_missing() -> None:
    wire = Wire([0, 3, 4, 9], 1, [1, 1, 1])

    with TopicFeed(wire, "t") as feed:
        assert [getattr(feed.poll(10), "offset", None) for _ in range(4)] == [0, 3, 4, 9]
        report = feed.report()

    assert (report.gaps, report.recovered) == (0, 1)
