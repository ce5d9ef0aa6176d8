"""What the heads for libraries without a broker have in common (ZeroMQ, nng)."""
