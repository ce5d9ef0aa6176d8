"""Timestamps of the events at given offsets, read by fetching one event of each partition."""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from mainstem.remote.admin import Place
from mainstem.remote.cluster import Cluster

_WAIT_S = 0.1


def times_at(cluster: Cluster, offsets: Mapping[Place, int]) -> dict[Place, int]:
    """Return the timestamp of the first event at or after each offset.

    Partitions without such an event, or without a response within the timeout, are left out.
    """
    if not offsets:
        return {}
    found: dict[Place, int] = {}
    waiting = dict(offsets)
    consumer = Consumer(
        cluster.reader_config(
            auto_offset_reset="earliest",
            # One event of each partition is wanted, however many there are, without delay.
            queued_min_messages=1,
            fetch_queue_backoff_ms=0,
            fetch_message_max_bytes=16 * 1024,
        )
    )
    try:
        consumer.assign([TopicPartition(*place, offset) for place, offset in offsets.items()])
        until = time.monotonic() + cluster.timeout_s
        while waiting and time.monotonic() < until:
            message = consumer.poll(_WAIT_S)
            if message is None:
                continue
            place = (message.topic() or "", message.partition() or 0)
            if waiting.pop(place, None) is None:
                continue
            if message.error() is None:
                found[place] = message.timestamp()[1]
            consumer.incremental_unassign([TopicPartition(*place)])
    except KafkaException as error:
        raise cluster.refusal(error) from None
    finally:
        consumer.close()
    return found
