"""Kafka Connect's REST API, for the connectors of this server."""

from mainstem.heads.connect.settings import ConnectSettings
from mainstem.heads.head import Head

HEAD = Head(
    "connect",
    "Kafka Connect",
    ConnectSettings(),
    serves="Address of Kafka Connect's REST API for connectors (Kafka Connect uses port 8083).",
    connect="http://{at}/connectors   (kcctl, and clients of Kafka Connect)",
    auto_port=8083,
)
