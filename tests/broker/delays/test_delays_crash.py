"""Delayed events after a crash at any step: each is delayed or published, exactly once."""

from random import Random

import pytest
from tests.broker.brokers import Clock, new_broker, read_all
from tests.faults.disk.crash_checks import open_on
from tests.faults.disk.crash_states import crashes
from tests.faults.disk.simulated_disk import SimFiles, blank

from mainstem.broker.broker import Broker
from mainstem.broker.delays import delays
from mainstem.broker.delays.delays import DelayedEvent
from mainstem.broker.publishing.atomic import PublishedAll
from mainstem.core.event import Event
from mainstem.core.topic_settings import Durability, TopicSettings

DELAYED_MS = 10


def delay(broker: Broker, clock: Clock, *values: bytes) -> PublishedAll:
    later = [DelayedEvent(Event(each), clock() + DELAYED_MS, "t") for each in values]
    found = broker.publish_all((), delayed=later)
    assert isinstance(found, PublishedAll)
    return found


def published(broker: Broker) -> list[bytes]:
    return [each.value or b"" for each in read_all(broker, "t")]


@pytest.mark.parametrize("durability", [Durability.FSYNC, Durability.DISK])
def test_an_event_is_delayed_or_published_and_never_both(
    durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delays, "MAX_AT_ONCE", 2)
    files, clock = SimFiles(), Clock()
    log = open_on(files)
    broker = new_broker(log, clock)
    broker.create_topic("t", TopicSettings(durability=durability))
    stored = delay(broker, clock, b"a", b"b", b"c")
    log.committer.commit()
    assert stored.durable.done
    first = len(files.trace)

    clock.now_ms += DELAYED_MS
    for _ in range(4):
        broker.tick()
        log.committer.commit()
    assert published(broker) == [b"a", b"b", b"c"]

    seen: set[int] = set()
    for crash in crashes(blank(), files.trace, Random(7), first=first):
        again = new_broker(open_on(SimFiles(crash.image)), Clock(clock()))
        waits, found = again.delays.waiting().events, published(again)
        assert len(found) + waits == 3, f"{crash.what} at {crash.at}: {found} and {waits}"
        seen.add(waits)
        while again.wait_ms() == 0:
            again.tick()
            again._log.committer.commit()  # type: ignore[attr-defined]
        assert published(again) == [b"a", b"b", b"c"], f"{crash.what} at {crash.at}"
    assert seen == {3, 1, 0}
