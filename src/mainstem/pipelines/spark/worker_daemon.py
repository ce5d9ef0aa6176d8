"""Spark's Python daemon, changed so that dropped workers end without a stack trace.

A worker whose task was cancelled still sends its error, to a socket that Spark has closed. Over TCP
nobody notices; writing to a Unix domain socket fails, and PySpark's daemon would print that.
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
