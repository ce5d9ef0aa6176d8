"""AMQP 0-9-1 over TCP, as RabbitMQ speaks it: exchanges, queues, confirms and dead letters."""

from mainstem.heads.amqp091.metrics import METRICS
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.heads.head import Head, forgets_queues_in

HEAD = Head(
    "amqp",
    "AMQP 0-9-1",
    AmqpSettings(),
    serves="Where AMQP 0-9-1 clients connect (RabbitMQ uses port 5672).",
    connect="amqp://{at}   (AMQP 0-9-1, as RabbitMQ speaks it)",
    metrics=METRICS,
    forget_queue=forgets_queues_in(
        "mainstem.heads.amqp091.adapter.queues.deleted_queues", "amqp", "queue"
    ),
)
