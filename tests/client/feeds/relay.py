"""A network that loses, repeats and reorders multicast packets: relays one group to another."""

import random
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"

Fate = Callable[[int], str]
"""What becomes of the nth packet: kept, lost, repeated, or late (after the next one)."""


def every(nth: int) -> Fate:
    """Lose every nth packet."""
    return lambda number: "lost" if number % nth == 0 else "kept"


def by_chance(seed: int, lost: float, repeated: float = 0.02, late: float = 0.02) -> Fate:
    """Lose, repeat and delay packets at random."""
    chance = random.Random(seed)
    weights = [1 - lost - repeated - late, lost, repeated, late]
    return lambda _: chance.choices(["kept", "lost", "repeated", "late"], weights)[0]


def joined(group: str) -> socket.socket:
    """Return a socket that receives a group's packets."""
    host, _, port = group.partition(":")
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    found.bind((host, int(port)))
    wanted = struct.pack("4s4s", socket.inet_aton(host), socket.inet_aton(LOOPBACK))
    found.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, wanted)
    return found


class Relay:
    """Sends what it receives from one group on to another, in a thread."""

    def __init__(self, source: str, to: str, fate: Fate) -> None:
        self.counts = dict.fromkeys(("kept", "lost", "repeated", "late"), 0)
        self._fate = fate
        host, _, port = to.partition(":")
        self._to = host, int(port)
        self._from = joined(source)
        self._from.settimeout(0.1)
        self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sender.setsockopt(
            socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK)
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, it: BaseException | None, at: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._from.close()
        self._sender.close()

    def _run(self) -> None:
        number, late = 0, b""
        while not self._over.is_set():
            try:
                data = self._from.recv(65_536)
            except TimeoutError:
                continue
            number += 1
            fate = self._fate(number)
            self.counts[fate] += 1
            copies = {"kept": [data], "lost": [], "repeated": [data, data], "late": []}[fate]
            if late:
                copies, late = [*copies, late], b""
            if fate == "late":
                late = data
            for each in copies:
                self._sender.sendto(each, self._to)
