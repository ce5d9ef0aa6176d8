"""Finds events that cannot be decoded or processed, counts them and writes dead letters."""
