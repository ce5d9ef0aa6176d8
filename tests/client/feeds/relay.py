"""A network that loses, repeats and reorders UDP packets: relays them from socket to socket."""

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
FATES = ("kept", "lost", "repeated", "late")


def every(nth: int) -> Fate:
    """Lose every nth packet."""
    return lambda number: "lost" if number % nth == 0 else "kept"


def by_chance(seed: int, lost: float, repeated: float = 0.02, late: float = 0.02) -> Fate:
    """Lose, repeat and delay packets at random."""
    chance = random.Random(seed)
    weights = [1 - lost - repeated - late, lost, repeated, late]
    return lambda _: chance.choices(FATES, weights)[0]


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


def sender() -> socket.socket:
    """Return a socket that sends to groups on this machine."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
    return found


class Wire:
    """Passes packets on from one socket, in a thread; closes it in the end."""

    def __init__(
        self, source: socket.socket, send: Callable[[bytes, object], object], fate: Fate
    ) -> None:
        """``send``: gets each packet that arrives, and who sent it."""
        self.counts = dict.fromkeys(FATES, 0)
        self._source, self._send, self._fate = source, send, fate
        source.settimeout(0.1)
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
        self._source.close()

    def _run(self) -> None:
        number = 0
        late: list[tuple[bytes, object]] = []
        while not self._over.is_set():
            try:
                packet = self._source.recvfrom(65_536)
            except OSError:
                # Nothing comes, or the other side is away.
                continue
            number += 1
            fate = self._fate(number)
            self.counts[fate] += 1
            copies = [packet] * {"kept": 1, "repeated": 2}.get(fate, 0) + late
            late = [packet] if fate == "late" else []
            for each in copies:
                try:
                    self._send(*each)
                except OSError:
                    continue
