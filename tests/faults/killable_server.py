"""``mainstem serve`` as a process that dies and comes back at the same address.

It can be killed from outside at any moment, or at a point of its own: a crash is a few lines that
the process runs before it serves, so that it dies in the middle of a write, for example. A flaw is
the same in every life: what the server no longer does right, to see that it would be noticed.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.long_runs import LONG

from mainstem.broker.broker import Broker
from mainstem.node.config import Config
from mainstem.node.node import open_node

PATIENCE_S = 60

QUICK: dict[str, str | int | bool] = {
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    # The only server there is comes back where it was: nothing is to be learnt anew.
    "metadata.recovery.strategy": "none",
    # A broker that is gone for a moment is what these tests are about.
    "log_level": 0,
}
"""How a client is to behave towards a server that is often away."""

DIES_IN_WRITE = """
import os, signal, threading
from mainstem.log.files.files import RealFile
from {module} import {owner}
whole, asked, lock = RealFile.pwrite, {owner}.{method}, threading.Lock()
calls, count = 0, -1

def pwrite(self, data, position):
    global count
    with lock:
        if count >= 0:
            count += 1
        if count == {nth} + 1:
            whole(self, memoryview(data)[:len(data) // 2], position)
            os.kill(os.getpid(), signal.SIGKILL)
    whole(self, data, position)

def armed(*arguments, **named):
    global calls, count
    calls += 1
    count = 0 if calls == {call} else -1
    return asked(*arguments, **named)

RealFile.pwrite, {owner}.{method} = pwrite, armed
"""
"""Dies half-way through the nth write to a file after a method was called for so many times."""


_NOT_ALONE = "import ctypes, signal; ctypes.CDLL(None).prctl(1, signal.SIGKILL)"
"""A server does not outlive the thread that started it."""


class Mortal:
    """The server: a directory and an address that stay, and one life after the other."""

    def __init__(self, path: Path, *, flaw: str = "", crash: str = "", amqp: bool = False) -> None:
        self._path = path
        self._flaw = flaw
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.amqp = ("127.0.0.1", free_port())
        """Where AMQP clients connect, if that was asked for."""
        self._more = ["--amqp", "{}:{}".format(*self.amqp)] if amqp else []
        self.lives = 0
        self.start(crash)

    def __enter__(self) -> "Mortal":
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        self.kill()
        if error is not None:
            error.add_note(f"the server said in its last life: {self.said}")

    @property
    def pid(self) -> int:
        """The process of this life."""
        return self._process.pid

    def start(self, crash: str = "") -> None:
        """Begin another life; returns once it serves."""
        code = f"{_NOT_ALONE}\n{self._flaw}\n{crash}\nfrom mainstem.cli import main\nmain()"
        command = ["serve", str(self._path), "--kafka", self.address, "--admin", ":0"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *command, *self._more],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        assert self._process.stderr is not None
        while self.address not in (line := self._process.stderr.readline()):
            self.said += line
            assert line, f"the server ended with {self._process.wait(PATIENCE_S)}: {self.said}"
        self.lives += 1

    def kill(self) -> None:
        """End this life by kill -9."""
        self._process.kill()
        self.wait()

    def restart(self) -> None:
        """End this life by kill -9, and begin another."""
        self.kill()
        self.start()

    def tell(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end of this life; return its exit code."""
        self.said += self._process.communicate(timeout=PATIENCE_S)[1]
        return self._process.returncode

    @contextmanager
    def corpse(self) -> Iterator[Broker]:
        """Look at what the dead server has left behind; what it comes back from stays as it is."""
        copy = self._path.with_name(f"{self._path.name}.corpse")
        shutil.copytree(self._path, copy, ignore=shutil.ignore_patterns("lock*"))
        node = open_node(copy, Config())
        try:
            yield node.broker
        finally:
            node.close()
            shutil.rmtree(copy)


class Tally:
    """A number that one thread counts up and others wait for."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def add(self, more: int = 1) -> None:
        """Count."""
        with self._changed:
            self.count += more
            self._changed.notify_all()

    def wait_for(self, more: int) -> bool:
        """Wait until so many more were counted."""
        with self._changed:
            wanted = self.count + more
            return self._changed.wait_for(lambda: self.count >= wanted, PATIENCE_S)


def die_often(
    server: Mortal,
    done: Tally,
    look: Callable[[Broker], None],
    *,
    seed: int,
    kills: int,
    most: int,
) -> None:
    """Kill the server again and again, each time after up to so many more things were done."""
    rng = random.Random(seed)
    for _ in range(kills * (20 if LONG else 1)):
        assert done.wait_for(rng.randint(1, most)), "nothing is done any more"
        server.kill()
        with server.corpse() as broker:
            look(broker)
        server.start()
    assert done.wait_for(1)


def create(address: str, topic: str, partitions: int, **config: str) -> None:
    """Create a topic."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": address, **QUICK})
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(PATIENCE_S)


def fill(address: str, events: int, partitions: int, topic: str = "t") -> None:
    """Create a topic with so many events."""
    create(address, topic, partitions)
    sender = Producer({"bootstrap.servers": address, **QUICK})
    for number in range(events):
        sender.produce(topic, b"%d" % number, partition=number % partitions)
    assert sender.flush(PATIENCE_S) == 0


def reader(address: str, group: str) -> Consumer:
    """Return a consumer that commits only when told to."""
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 6000,
            **QUICK,
        }
    )


def read(
    address: str, topic: str, partition: int, isolation: str = "read_committed"
) -> list[bytes]:
    """Return every event that a partition holds."""
    source = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **QUICK,
        }
    )
    source.assign([TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        message = source.poll(1)
        if message is None:
            continue
        if message.error():
            source.close()
            return found
        found.append(message.value() or b"")
    raise TimeoutError(f"partition {partition} of {topic} did not end")


def until(condition: Callable[[], bool]) -> None:
    """Ask until it is so; asking takes its time."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"


def free_port() -> int:
    """Return a port at which nobody listens."""
    # Not one of those that the kernel gives to whoever connects while the server is away.
    rng = random.Random(os.urandom(8))
    while True:
        port = rng.randrange(12_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Repeated:
    """Takes a step again and again in a thread of its own, until it is told to finish."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._step()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
