"""What the node gives to heads, for heads that tests start without one."""

from collections.abc import Callable

from mainstem.auth import Auth
from mainstem.broker.broker import Broker
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.context import HeadContext
from mainstem.heads.kafka.adapter.service import Service
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.node.admin_queries import AdminQueries
from mainstem.node.broker_clock import BrokerClock
from mainstem.node.health import Health

DEFAULTS = TopicSettings()
KAFKA = KafkaSettings()


def context_on(
    broker: Broker,
    now_ms: Callable[[], int],
    defaults: TopicSettings = DEFAULTS,
    auth: Auth | None = None,
    run_id: str = "",
) -> HeadContext:
    """Return a context whose broker's deadlines are looked at, inside a running loop."""
    operations = AdminQueries(Health(), "of a test")
    context = HeadContext(
        now_ms, operations, defaults=defaults, broker=broker, auth=auth, run_id=run_id
    )
    BrokerClock(broker)
    return context


def kafka_service(
    broker: Broker,
    now_ms: Callable[[], int],
    settings: KafkaSettings = KAFKA,
    defaults: TopicSettings = DEFAULTS,
) -> Service:
    """Return what Kafka's requests are answered from, inside a running loop."""
    return Service(context_on(broker, now_ms, defaults), settings)
