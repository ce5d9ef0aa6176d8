"""Examples of every head's protocol, for the laws that all heads keep.

A new head adds a file here, and a line to ``EXAMPLES``. A field of a law that does not apply is
left out, and ``not_applicable`` says why; a test compares both.
"""

from tests.laws.heads import (
    admin,
    amqp091,
    amqp_management,
    connect,
    http,
    kafka,
    moldudp64,
    nng,
    statsd,
    stomp,
    webhooks,
    zmq,
)
from tests.laws.heads.examples import Examples, Law

from mainstem.heads.head import Head

__all__ = ["EXAMPLES", "Examples", "Law", "examples_of"]

EXAMPLES: dict[str, Examples] = {
    "kafka": kafka.EXAMPLES,
    "stomp": stomp.EXAMPLES,
    "amqp": amqp091.EXAMPLES,
    "statsd": statsd.EXAMPLES,
    "amqp_management": amqp_management.EXAMPLES,
    "http": http.EXAMPLES,
    "webhooks": webhooks.EXAMPLES,
    "connect": connect.EXAMPLES,
    "moldudp64": moldudp64.EXAMPLES,
    "zmq": zmq.EXAMPLES,
    "nng": nng.EXAMPLES,
    "admin": admin.EXAMPLES,
}


def examples_of(head: Head) -> Examples:
    """Return the examples of a head's protocol."""
    found = EXAMPLES.get(head.name)
    if found is None:
        raise AssertionError(
            f"the laws for every head cannot be checked for {head.name!r}: add a file for it to "
            f"tests/laws/heads, and a line to EXAMPLES there. It says how a peer asks for "
            f"something (ask, told, done, denied, unauthenticated), what the codec writes and "
            f"reads (messages, there_and_back), and for each law that cannot apply why "
            f"(not_applicable)"
        )
    return found
