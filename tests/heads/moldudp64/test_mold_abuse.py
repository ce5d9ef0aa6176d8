"""Packets that are no requests, and floods of requests, over UDP: others are served beside them."""

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.heads.healthy import Healthy
from tests.heads.kafka.raw_peers import Peer
from tests.heads.moldudp64.feed_head import new_group, store_trades
from tests.heads.server_process import Process, beside, until

from mainstem.heads.moldudp64.codec import Request, decode_packet, encode_request

PACKETS = 100_000
REQUESTS_PER_S = 500
FLOOD = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect(("127.0.0.1", int(sys.argv[1])))
packet = bytes.fromhex(sys.stdin.read())
for _ in range(int(sys.argv[2])):
    try:
        sender.send(packet)
    except OSError:
        pass
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    path = tmp_path_factory.mktemp("mold")
    store_trades(path)
    with Process(
        path,
        moldudp64__listen="127.0.0.1:0",
        moldudp64__feeds=f"S1=trades/0@{new_group()}",
        moldudp64__requests_per_s=REQUESTS_PER_S,
    ) as found:
        until(lambda: found.metric("mainstem_moldudp64_next_sequence") > 5_000, lambda: None)
        yield found


def port_of(server: Process) -> int:
    return int(server.addresses["moldudp64"].rpartition(":")[2])


def outcome(server: Process, name: str) -> float:
    return server.metric(f'mainstem_moldudp64_requests_total{{outcome="{name}"}}')


def answered(server: Process, host: str) -> None:
    """Fail unless a request from an address is answered with the message it asks for."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind((host, 0))
        peer.connect(("127.0.0.1", port_of(server)))
        peer.settimeout(0.2)

        def asks() -> bool:
            # UDP may lose the request and the answer.
            peer.send(encode_request(Request("S1", 7, 1)))
            try:
                packet = decode_packet(peer.recv(65_536))
            except TimeoutError:
                return False
            return packet.sequence == 7 and packet.messages == (b"x" * 100,)

        until(asks, lambda: None)


ASK = encode_request(Request("S1", 1, 65_534))
FLOODS = {
    "requests for all there is": (ASK, "limited"),
    "requests for no session": (encode_request(Request("NOBODY", 1, 1)), "limited"),
    "noise": (bytes(range(200)), "limited"),
    "empty packets": (b"", "limited"),
}


@pytest.mark.parametrize(("packet", "counted"), FLOODS.values(), ids=FLOODS)
def test_others_are_served_beside_a_flood(server: Process, packet: bytes, counted: str) -> None:
    before = outcome(server, counted)
    sent_before = server.metric("mainstem_moldudp64_replayed_messages_total")
    command = [sys.executable, "-c", FLOOD, str(port_of(server)), str(PACKETS)]
    with (
        Peer(server.address) as kafka,
        server.within_bounds(),
        beside(Healthy(kafka), server),
        subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as flood,
    ):
        assert flood.stdin is not None
        flood.stdin.write(packet.hex())
        flood.stdin.close()
        # From another address, whose requests are limited on their own.
        answered(server, "127.0.0.2")
        flood.wait(60)

    assert outcome(server, counted) > before
    replayed = server.metric("mainstem_moldudp64_replayed_messages_total") - sent_before
    # Each answer fits into a packet of 1,400 bytes, so has 13 messages.
    assert replayed < 13 * PACKETS / 4


MALFORMED = {
    "cut off": ASK[:19],
    "one byte too many": ASK + b"x",
    "a session that is no ASCII": b"\xff" * 10 + ASK[10:],
    "sequence 0": ASK[:10] + bytes(8) + ASK[18:],
    "sequence 2^64 - 1": ASK[:10] + b"\xff" * 8 + ASK[18:],
    "count 0": ASK[:18] + bytes(2),
    "64 KiB": b"x" * 65_000,
    "a published packet": ASK[:18] + struct.pack(">HH", 1, 500) + b"x",
}


@pytest.mark.parametrize("packet", MALFORMED.values(), ids=MALFORMED)
def test_a_bad_request_is_not_answered(server: Process, packet: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.3", 0))
        peer.connect(("127.0.0.1", port_of(server)))
        peer.send(packet)
        # What is answered next is the request after it.
        peer.settimeout(30)
        peer.send(encode_request(Request("S1", 9, 1)))

        assert decode_packet(peer.recv(65_536)).sequence == 9
