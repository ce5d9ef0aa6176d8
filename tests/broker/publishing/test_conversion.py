"""Topics that rewrite batches on arrival: their timestamps and compression."""

import pytest
from tests.broker.brokers import NOW_MS, append, new_broker, read_all

from mainstem.broker.broker import Broker
from mainstem.core.batch import BatchHeader, read_header
from mainstem.core.compression import NAMES
from mainstem.core.errors import EventTooLarge
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import Compression, Timestamps, TopicSettings
from mainstem.log.memory import MemoryLog

LONG_AGO_MS = 1_000
EVENTS = [Event(b"a" * 500, timestamp_ms=LONG_AGO_MS), Event(b"b" * 500, timestamp_ms=LONG_AGO_MS)]


@pytest.fixture
def broker() -> Broker:
    return new_broker(MemoryLog())


def made(broker: Broker, **settings: object) -> None:
    broker.create_topic("orders", TopicSettings().altered(**settings))


def stored(broker: Broker) -> BatchHeader:
    return read_header(broker.read("orders", 0, 0, 100_000).tobytes())


@pytest.mark.parametrize("published", [True, False], ids=["published", "from a producer"])
@pytest.mark.parametrize("compression", [each for each in Compression if each != "producer"])
def test_batches_are_stored_as_the_topic_compresses(
    broker: Broker, compression: Compression, published: bool
) -> None:
    made(broker, compression=compression)

    if published:
        broker.publish("orders", EVENTS)
    else:
        append(broker, "orders", 0, build(EVENTS, now_ms=0, compression="lz4"))

    assert NAMES[stored(broker).codec] == compression
    assert [each.value for each in read_all(broker, "orders")] == [each.value for each in EVENTS]


@pytest.mark.parametrize("published", [True, False], ids=["published", "from a producer"])
def test_events_are_given_the_time_of_the_append(broker: Broker, published: bool) -> None:
    made(broker, timestamps=Timestamps.APPENDED)

    if published:
        broker.publish("orders", EVENTS)
    else:
        batch = build(EVENTS, now_ms=0)
        assert append(broker, "orders", 0, batch).appended_ms == NOW_MS

    assert {each.timestamp_ms for each in read_all(broker, "orders")} == {NOW_MS}
    at = broker.offset_at("orders", 0, LONG_AGO_MS + 1)
    assert at is not None
    assert at.offset == 0


def test_a_batch_that_is_too_large_when_unpacked_is_refused(broker: Broker) -> None:
    made(broker, compression=Compression.NONE, max_batch_bytes=1024)
    batch = build([Event(bytes(5000))], now_ms=0, compression="zstd")
    assert len(batch) < 1024

    with pytest.raises(EventTooLarge):
        append(broker, "orders", 0, batch)

    assert broker.bounds("orders", 0).tail == 0


def test_a_producer_that_sends_again_is_recognised_in_other_clothes(broker: Broker) -> None:
    made(broker, compression=Compression.ZSTD, timestamps=Timestamps.APPENDED)
    producer_id = broker.producers.new_id().producer_id
    batch = build(EVENTS, now_ms=0, producer_id=producer_id, producer_epoch=0, base_sequence=0)

    first = append(broker, "orders", 0, bytearray(batch))
    again = append(broker, "orders", 0, bytearray(batch))

    assert first.offset == again.offset == 0
    assert broker.bounds("orders", 0).tail == len(EVENTS)
