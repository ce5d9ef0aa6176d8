"""Groups of Kafka's consumer protocol (KIP-848): the broker assigns the partitions."""
