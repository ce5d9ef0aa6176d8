"""Follows a topic in its own process, as foreign_clients/c/follow.c does.

Arguments: zmq or nng, the port for replays, the topic and how many events to print the values of.
"""

import sys

from mainstem.feeds import FeedPatience, NngFeed, ZmqFeed

_QUICK = FeedPatience(answer_s=0.2, check_s=0.2)


def follow(style: str, port: str, topic: str, count: int) -> None:
    """Print the values of the events."""
    opened = {"zmq": ZmqFeed, "nng": NngFeed}[style]
    with opened(f"tcp://127.0.0.1:{port}", topic, patience=_QUICK, timeout_s=60) as feed:
        for _ in range(count):
            event = feed.poll()
            assert event is not None
            sys.stdout.write((event.value or b"").decode() + "\n")
        sys.stderr.write(f"{feed.report()}\n")


if __name__ == "__main__":
    follow(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
