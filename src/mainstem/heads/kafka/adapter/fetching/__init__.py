"""Fetch sessions and leader epochs, used by Fetch and related APIs."""
