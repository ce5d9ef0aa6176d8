"""STOMP 1.0, 1.1 and 1.2 over TCP: queues and topics for clients of ActiveMQ and RabbitMQ."""

from mainstem.heads.head import Head
from mainstem.heads.stomp.metrics import METRICS
from mainstem.heads.stomp.settings import StompSettings

HEAD = Head(
    "stomp",
    "STOMP",
    StompSettings(),
    serves="Address for STOMP clients (ActiveMQ and RabbitMQ use port 61613).",
    connect="{at}   (STOMP 1.0, 1.1, 1.2; /queue/NAME, /topic/NAME)",
    metrics=METRICS,
)
