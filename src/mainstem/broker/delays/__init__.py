"""Delayed events: stored now, published when they are due."""
