"""Kafka Connect's REST API, for the connectors of this server."""

from mainstem.heads.addresses import Address
from mainstem.heads.connect.settings import ConnectSettings
from mainstem.heads.head import Head

HEAD = Head(
    "connect",
    "Kafka Connect",
    ConnectSettings(),
    module="mainstem.heads.connect.head",
    serves="Address of Kafka Connect's REST API for connectors (Kafka Connect uses port 8083).",
    connect="http://{at}/connectors   (kcctl, and clients of Kafka Connect)",
    auto=Address("127.0.0.1", 8083),
)
