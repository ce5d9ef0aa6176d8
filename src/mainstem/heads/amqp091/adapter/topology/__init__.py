"""Exchanges, queues and bindings: declared, compared, matched, and the routes through them."""
