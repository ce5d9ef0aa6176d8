"""Queues: consumers that share the events of a topic one by one, each settled once."""
