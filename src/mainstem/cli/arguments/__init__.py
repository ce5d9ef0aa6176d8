"""What commands are given: sizes and times, positions, names of queues, topic settings."""
