"""Runs connectors: threads and processes, the snapshot, following, and how far each is."""
