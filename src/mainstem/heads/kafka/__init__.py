"""Kafka's protocol: serves unmodified Kafka clients."""

from typing import TYPE_CHECKING

from mainstem.heads.addresses import Address
from mainstem.heads.head import Head, HeadSettings
from mainstem.heads.kafka.metrics import METRICS
from mainstem.heads.kafka.settings import KafkaSettings

_PROGRAM = (
    "import confluent_kafka as k; "
    'p = k.Producer({{"bootstrap.servers": "{at}"}}); p.produce("greetings", "hi"); p.flush()'
)

if TYPE_CHECKING:
    import socket


def _bind(settings: HeadSettings, address: Address) -> "socket.socket":
    from mainstem.heads.transport.server import bind  # noqa: PLC0415 - only what is used

    assert isinstance(settings, KafkaSettings)
    return bind(address.host, address.port, settings.silence_ms)


HEAD = Head(
    "kafka",
    "Kafka",
    KafkaSettings(),
    bind=_bind,
    serves="Address for Kafka clients.",
    connect="{at}   (bootstrap.servers={at})",
    examples=(
        "echo hello | kcat -P -b {at} -t greetings",
        "kcat -C -b {at} -t greetings -e",
        f"python -c '{_PROGRAM}'",
    ),
    metrics=METRICS,
)
