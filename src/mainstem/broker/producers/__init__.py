"""Idempotent producers: their ids and sequence numbers."""
