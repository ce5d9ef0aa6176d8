"""Groups of Kafka's classic protocol: join, sync, heartbeat."""
