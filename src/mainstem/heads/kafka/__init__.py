"""The Kafka protocol."""
