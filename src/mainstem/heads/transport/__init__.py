"""The sockets of all heads: accept, receive and send with bounded memory, TLS, datagrams."""
