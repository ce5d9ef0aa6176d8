"""Types of config resources, by Kafka's numbers."""

TOPIC, BROKER, GROUP = 2, 4, 32
WITHOUT_CONFIGS = frozenset({8, 16})
"""Loggers of brokers and metrics of clients: nothing can be set for them here."""
