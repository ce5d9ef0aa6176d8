"""The receiving program of each style, in a process of its own.

It says ``ready`` when something has come, and in the end prints what it has measured. A message
begins with a letter: w to warm up, m and 8 bytes of time (monotonic, ns), e for the end.
"""

import json
import struct
import sys
import time
from collections.abc import Callable, Iterator

import pynng
import zmq
from tests.client.feeds.relay import joined

from mainstem.feeds import MulticastFeed, NngFeed, ZmqFeed

STAMP = struct.Struct("=cQ")
_HWM = 10_000_000
Values = Iterator[bytes]


def bare_zmq(address: str, prefix: bytes = b"") -> Values:
    with zmq.Context[zmq.Socket[bytes]]() as context, context.socket(zmq.SUB) as found:
        found.setsockopt(zmq.RCVHWM, _HWM)
        found.subscribe(prefix)
        found.connect(address)
        while True:
            yield found.recv()


def sub_of_whole(address: str) -> Values:
    for message in bare_zmq(address, b"trades/"):
        # The value is the last thing in it.
        yield message[-100:]


def sub_of_ours(address: str) -> Values:
    with zmq.Context[zmq.Socket[bytes]]() as context, context.socket(zmq.SUB) as found:
        found.setsockopt(zmq.RCVHWM, _HWM)
        found.subscribe(b"trades/")
        found.connect(address)
        receive = found.recv
        while True:
            receive()
            value = receive()
            receive()
            yield value


def bare_nng(address: str) -> Values:
    with pynng.Sub0(topics=[b""], recv_buffer_size=8192) as found:
        found.dial(address, block=False)
        while True:
            yield found.recv()


def bare_multicast(group: str) -> Values:
    with joined(group) as found:
        while True:
            yield found.recv(2048)


def zmq_feed(address: str) -> Values:
    with ZmqFeed(address, "trades", start="latest", timeout_s=60) as feed:
        for event in feed:
            yield event.value or b""


def nng_feed(address: str) -> Values:
    with NngFeed(address, "trades", start="latest", timeout_s=60) as feed:
        for event in feed:
            yield event.value or b""


def multicast_feed(addresses: str) -> Values:
    group, _, requests = addresses.partition(",")
    with MulticastFeed(group, requests=requests, start=None) as feed:
        for message in feed:
            yield message.data


RECEIVERS: dict[str, Callable[[str], Values]] = {
    each.__name__: each
    for each in (
        *(bare_zmq, sub_of_ours, sub_of_whole, bare_nng, bare_multicast),
        *(zmq_feed, nng_feed, multicast_feed),
    )
}
RECEIVERS["bare_zmq_frames"] = sub_of_ours
RECEIVERS["zmq_feed_whole"] = zmq_feed


def main() -> None:
    """Receive: arguments are the kind of receiver and its address."""
    values = RECEIVERS[sys.argv[1]](sys.argv[2])
    next(values)
    print("ready", flush=True)
    count, first_ns, last_ns, cpu_s, delays = 0, 0, 0, 0.0, list[int]()
    for value in values:
        kind = value[:1]
        if kind == b"m":
            last_ns = time.monotonic_ns()
            if not count:
                first_ns, cpu_s = last_ns, time.process_time()
            count += 1
            delays.append(last_ns - STAMP.unpack_from(value)[1])
        elif kind == b"e":
            break
    found = {"messages": count, "seconds": (last_ns - first_ns) / 1e9, "ns": sorted(delays)}
    print(json.dumps(found | {"cpu_s": time.process_time() - cpu_s}))


if __name__ == "__main__":
    main()
