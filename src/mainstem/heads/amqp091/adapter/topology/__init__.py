"""Exchanges, queues and bindings: declaration, comparison, matching, and routing."""
