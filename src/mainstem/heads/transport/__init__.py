"""The sockets of all heads: accepting, bounded receiving and sending, plain or TLS, datagrams."""
