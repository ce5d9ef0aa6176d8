"""Fetch sessions and leader epochs, for Fetch and the APIs of epochs and offsets."""
