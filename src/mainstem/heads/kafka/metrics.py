"""The metrics of the Kafka head."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mainstem.heads.metric import Metric, Sample, counter

if TYPE_CHECKING:
    from mainstem.heads.kafka.counts import Counts

REQUESTS = counter("mainstem_kafka_requests_total", "Requests of Kafka clients.", "api")
ERRORS = counter(
    "mainstem_kafka_errors_total",
    "Error codes in responses to Kafka clients, counted per partition.",
    "api",
    "code",
)
PRODUCED_BATCHES = counter(
    "mainstem_kafka_produced_batches_total",
    "Record batches accepted from Kafka clients, including duplicates of idempotent producers.",
)
PRODUCED_EVENTS = counter(
    "mainstem_kafka_produced_events_total", "Events accepted from Kafka clients."
)
PRODUCED_BYTES = counter(
    "mainstem_kafka_produced_bytes_total",
    "Bytes of record batches accepted from Kafka clients, as received.",
)
FETCHED_BYTES = counter(
    "mainstem_kafka_fetched_bytes_total",
    "Bytes of record batches sent to Kafka clients; their events are not counted.",
)

METRICS = (
    REQUESTS,
    ERRORS,
    PRODUCED_BATCHES,
    PRODUCED_EVENTS,
    PRODUCED_BYTES,
    FETCHED_BYTES,
)


def samples(counts: "Counts") -> Iterator[tuple[Metric, Sample]]:
    """Yield the metrics of the head; may be called from any thread."""
    from mainstem.kafka_protocol.apis import APIS  # noqa: PLC0415
    from mainstem.kafka_protocol.error_codes import Code  # noqa: PLC0415 - not to declare metrics

    codes = {code.value: code.name for code in Code}
    for key, count in enumerate(counts.requests):
        if count:
            yield REQUESTS, ((APIS[key].name,), count)
    for (key, code), count in list(counts.errors.items()):
        yield ERRORS, ((APIS[key].name, codes.get(code, str(code))), count)
    yield PRODUCED_BATCHES, ((), counts.produced_batches)
    yield PRODUCED_EVENTS, ((), counts.produced_events)
    yield PRODUCED_BYTES, ((), counts.produced_bytes)
    yield FETCHED_BYTES, ((), counts.fetched_bytes)
