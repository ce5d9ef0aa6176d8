"""Declared queues: stored as topics of the broker, delivered to consumers, dead-lettered."""
