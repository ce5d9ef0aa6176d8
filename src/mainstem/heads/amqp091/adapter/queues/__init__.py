"""Queues in use: on topics of the broker, delivered to consumers, dead-lettered."""
