"""Spark's Python daemon, with workers that end without a stack trace when Spark drops them.

A worker whose task was cancelled still sends its error, to a socket that Spark has closed. Over TCP
that goes unnoticed; a Unix domain socket refuses it, and PySpark's daemon would print the refusal.
"""

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run tasks until Spark closes the socket."""
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
