"""Networks between a server and its receivers: one machine, or a network namespace for each.

How this works: a namespace has a loopback interface of its own, and nothing else. What passes into
it and out of it goes through threads that have a socket on each side, as a socket stays in the
namespace that it was opened in. They lose, repeat and delay packets, or cut connections.
"""

import contextlib
import ctypes
import os
import random
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import pytest
from tests.client.feeds.relay import LOOPBACK, Fate, Wire, joined, sender

NAMESPACES = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"),
    reason="needs root, ip and unshare (Debian: iproute2, util-linux) for network namespaces",
)
_NEW_NETWORK = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Place(NamedTuple):
    """Where a receiver is: how its command begins, and what it joins and asks there."""

    command: Sequence[str]
    group: str
    requests: str


class Network(Protocol):
    """What is between a server and its receivers."""

    def place(self, sent: str, received: str, requests: str) -> Place:
        """Return the place of another receiver.

        ``sent``: the group that the server sends to. ``received``: the one that receivers join.
        ``requests``: where the server is asked.
        """

    def counts(self) -> dict[str, int]:
        """Return how many packets had each fate so far."""

    def close(self) -> None:
        """Pass on nothing more."""


def _total(wires: Sequence[Wire]) -> dict[str, int]:
    return {fate: sum(each.counts[fate] for each in wires) for fate in wires[0].counts}


class OneMachine:
    """Receivers beside the server; all of them lose the same packets, and no requests."""

    def __init__(self, fate: Callable[[int], Fate]) -> None:
        self._fate, self._wires = fate, list[Wire]()
        self._stack = contextlib.ExitStack()

    def place(self, sent: str, received: str, requests: str) -> Place:
        if not self._wires:
            self._wires.append(multicast(self._stack, sent, received, self._fate(0)))
        return Place((), received, requests)

    def counts(self) -> dict[str, int]:
        return _total(self._wires)

    def close(self) -> None:
        self._stack.close()


class Namespaces:
    """A namespace for each receiver, which loses packets, requests and answers of its own."""

    def __init__(self, fate: Callable[[int], Fate]) -> None:
        """``fate``: makes the fate of the nth wire."""
        self._fate, self._wires = fate, list[Wire]()
        self._stack = contextlib.ExitStack()
        self._places = 0

    def place(self, sent: str, received: str, requests: str) -> Place:
        own = self._stack.enter_context(Namespace())
        # Requests of each come from an address of its own.
        self._places += 1
        host, _, port = requests.partition(":")
        with own.inside():
            asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            asked.bind((LOOPBACK, int(port)))
        asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        asks.bind((f"127.0.0.{self._places + 1}", 0))
        asks.connect((host, int(port)))
        askers = [("", 0)]

        def ask(packet: bytes, asker: object) -> None:
            assert isinstance(asker, tuple)
            askers[0] = asker
            asks.send(packet)

        fates = (self._fate(3 * self._places + each) for each in range(3))
        self._wires += [
            multicast(self._stack, sent, received, next(fates), own),
            self._stack.enter_context(Wire(asked, ask, next(fates))),
            self._stack.enter_context(
                Wire(asks, lambda packet, _: asked.sendto(packet, askers[0]), next(fates))
            ),
        ]
        return Place(own.command, received, requests)

    def counts(self) -> dict[str, int]:
        return _total(self._wires)

    def close(self) -> None:
        self._stack.close()


def multicast(
    stack: contextlib.ExitStack,
    sent: str,
    received: str,
    fate: Fate,
    own: "Namespace | None" = None,
) -> Wire:
    """Pass a group on as another one, here or into a namespace."""
    with own.inside() if own else contextlib.nullcontext():
        out = stack.enter_context(sender())
    host, _, port = received.partition(":")
    return stack.enter_context(
        Wire(joined(sent), lambda packet, _: out.sendto(packet, (host, int(port))), fate)
    )


class Namespace:
    """A network namespace with a loopback interface, for as long as the block lasts."""

    def __enter__(self) -> Self:
        script = "ip link set lo up && echo up && exec cat"
        self._process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"up\n"
        self._path = Path(f"/proc/{self._process.pid}/ns/net")
        self.command = ("nsenter", f"--net={self._path}")
        """How a command begins that is to run in it."""
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Open sockets in it, in this thread."""
        with Path("/proc/thread-self/ns/net").open() as own, self._path.open() as wanted:
            _enter(wanted.fileno())
            try:
                yield
            finally:
                _enter(own.fileno())


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "setns")


class CutWire:
    """Passes TCP connections to a port on from a namespace, and cuts each after a while."""

    def __init__(self, own: Namespace, port: int, chance: random.Random) -> None:
        self.cuts = 0
        self._port, self._chance = port, chance
        with own.inside():
            self._listener = socket.create_server((LOOPBACK, port))
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._ends):
            _shut(each)
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._ends):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection((LOOPBACK, self._port))
            self._ends += [near, far]
            left = self._chance.randrange(20_000, 100_000)
            for ends in ((near, far), (far, near)):
                self._threads.append(threading.Thread(target=self._pass_on, args=(*ends, left)))
                self._threads[-1].start()

    def _pass_on(self, source: socket.socket, to: socket.socket, left: int) -> None:
        with contextlib.suppress(OSError):
            while left > 0 and (data := source.recv(min(left, 4096))):
                to.sendall(data)
                left -= len(data)
        self.cuts += left <= 0
        _shut(source)
        _shut(to)


def _shut(found: socket.socket) -> None:
    with contextlib.suppress(OSError):
        found.shutdown(socket.SHUT_RDWR)
