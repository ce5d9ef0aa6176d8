"""Finds events that cannot be decoded or processed, counts and dead-letters them."""
