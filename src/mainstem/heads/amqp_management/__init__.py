"""RabbitMQ's management HTTP API, for tools such as rabbitmqadmin and flower, and for tests."""

from mainstem.heads.amqp_management.settings import AmqpManagementSettings
from mainstem.heads.head import Head

HEAD = Head(
    "amqp_management",
    "AMQP admin",
    AmqpManagementSettings(),
    serves="Address of RabbitMQ's management HTTP API, for --amqp (RabbitMQ uses port 15672).",
    connect="http://{at}/api/   (rabbitmqadmin, flower)",
    auto_port=15672,
)
