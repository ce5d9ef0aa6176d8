"""Kafka's share groups (KIP-932): queues as Kafka clients see them."""
