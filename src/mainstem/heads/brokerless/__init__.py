"""What the heads of protocols without a broker, ZeroMQ and nng, have in common."""
