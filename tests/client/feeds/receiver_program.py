"""A receiver in its own process: appends each message to a file, and goes on there when restarted.

Arguments: the file, the group, the number of messages to wait for, and where to send requests;
without that, what UDP loses is lost. Each request is written to a file beside, and in the end it
prints a report.
"""

import json
import sys
from pathlib import Path

import msgspec
from tests.client.feeds.relay import joined

from mainstem.feeds import MulticastFeed, Patience
from mainstem.heads.moldudp64.codec import decode_packet


def receive(file: Path, group: str, count: int, requests: str) -> None:
    """Receive all messages, each once and in order."""
    there = file.read_bytes() if file.exists() else b""
    # The last line may have been cut off by kill -9.
    whole = there[: there.rfind(b"\n") + 1]
    with (
        file.open("r+b" if file.exists() else "wb") as out,
        # Unbuffered, so that those before kill -9 are there.
        file.with_suffix(".requests").open("ab", buffering=0) as requested,
        MulticastFeed(
            group,
            requests=requests,
            start=whole.count(b"\n") + 1,
            patience=Patience(give_up_ms=None),
            on_request=lambda first, number: requested.write(b"%d %d\n" % (first, number)),
        ) as feed,
    ):
        out.truncate(len(whole))
        out.seek(len(whole))
        sequence = whole.count(b"\n")
        while sequence < count:
            message = feed.poll()
            assert message is not None
            assert message.sequence == sequence + 1
            sequence = message.sequence
            out.write(message.data + b"\n")
            if sequence % 100 == 0:
                out.flush()
        report = msgspec.to_builtins(feed.report())
    print(json.dumps(report))  # noqa: T201 - for the test


def receive_alone(group: str, count: int) -> None:
    """Count the messages that arrive until one knows that all were sent."""
    seen: set[int] = set()
    with joined(group) as heard:
        print("ready", flush=True)  # noqa: T201 - for the test
        while True:
            packet = decode_packet(heard.recv(65_536))
            seen |= set(range(packet.sequence, packet.sequence + len(packet.messages)))
            if packet.sequence + len(packet.messages) > count:
                break
    print(json.dumps({"received": len(seen)}))  # noqa: T201 - for the test


if __name__ == "__main__":
    if len(sys.argv) > 4:
        receive(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        receive_alone(sys.argv[2], int(sys.argv[3]))
