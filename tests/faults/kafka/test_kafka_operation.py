"""Operating conditions of Kafka servers: pauses, clock jumps, no file descriptors.

Each with clients beside that must not notice more than they have to.
"""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.faults.kafka.test_kafka_kill_produce import PARTITIONS, Line, verdict
from tests.faults.killable_server import Mortal, create, fill, reader, until
from tests.heads.kafka.classic_members import heartbeat, joining, only_member
from tests.heads.kafka.raw_peers import Healthy, Peer, produce, request

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.metadata import METADATA, MetadataRequest

JUMPS = """
import pathlib, time
real = time.time_ns
def time_ns():
    sign = pathlib.Path({sign!r})
    return real() + (int(sign.read_text() or 0) * 1_000_000 if sign.exists() else 0)
time.time_ns = time_ns
"""
"""The time of day is off by what a file says."""

CONSUMER = """
import sys
from confluent_kafka import Consumer, TopicPartition
source = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "stopped",
                   "fetch.message.max.bytes": 10_000_000, "queued.max.messages.kbytes": 20_000,
                   "socket.receive.buffer.bytes": 8192})
source.assign([TopicPartition("t", 0, 0)])
found = 0
while found < int(sys.argv[2]):
    message = source.poll(1)
    if message is not None and message.error() is None:
        assert message.offset() == found
        found += 1
        if found == 100:
            print("reading", flush=True)
source.close()
print("done", flush=True)
"""

MEMBER = """
import sys
from confluent_kafka import Consumer
source = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "g", "log_level": 0,
                   "session.timeout.ms": 1500, "heartbeat.interval.ms": 200})
source.subscribe(["t"])
while True:
    source.poll(0.2)
"""
"""A member of a group, for ever."""

FEW_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))"


@contextlib.contextmanager
def program(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the block ends, stopped or not."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as found:
        try:
            yield found
        finally:
            found.kill()


def test_a_server_that_is_stopped_for_a_while_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with Mortal(tmp_path / "data") as server:
        create(server.address, "t", PARTITIONS)
        line = Line(server.address, **{"request.timeout.ms": 1000, "socket.timeout.ms": 1000})
        for _ in range(2):
            assert line.done.wait_for(300)
            server.tell(signal.SIGSTOP)
            with Peer(server.address) as peer:
                # Longer than the client waits for an answer, so it sends everything again.
                peer.socket.settimeout(2)
                peer.send(request(METADATA, 9, MetadataRequest(())))
                with pytest.raises(TimeoutError):
                    peer.frame()
            server.tell(signal.SIGCONT)
        assert line.done.wait_for(300)
        line.finish()

        assert verdict(server, line) == []


SHORT_SESSIONS = "import os; os.environ['MAINSTEM_GROUPS_MIN_SESSION_TIMEOUT_MS'] = '500'"


def test_a_client_that_is_stopped_costs_nobody_anything_and_goes_on(tmp_path: Path) -> None:
    with Mortal(tmp_path / "data") as server:
        create(server.address, "t", 1)
        # Far more than what fits between a server and a client that does not read.
        batch = bytes(build([Event(bytes(9_000))] * 100, now_ms=1))
        with Peer(server.address) as peer:
            for _ in range(50):
                assert produce(peer, "t", batch).error_code == 0
        healthy = Healthy(server.address)
        with program(CONSUMER, server.address, "5000") as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "reading\n"
            client.send_signal(signal.SIGSTOP)
            for _ in range(20):
                healthy.check()
            client.send_signal(signal.SIGCONT)

            assert client.stdout.readline() == "done\n"
        healthy.check()
        healthy.close()


def test_a_member_that_is_stopped_is_stood_in_for_until_it_comes_back(tmp_path: Path) -> None:
    with Mortal(tmp_path / "data", crash=SHORT_SESSIONS) as server:
        fill(server.address, 20, 4)
        config = {"session.timeout.ms": 1500, "heartbeat.interval.ms": 200, "log_level": 0}
        staying = Consumer({"bootstrap.servers": server.address, "group.id": "g", **config})
        staying.subscribe(["t"])

        def has(count: int) -> bool:
            staying.poll(0.05)
            return len(staying.assignment()) == count

        with program(MEMBER, server.address) as other:
            until(lambda: has(2))
            other.send_signal(signal.SIGSTOP)
            until(lambda: has(4))
            other.send_signal(signal.SIGCONT)
            until(lambda: has(2))
        staying.close()


@pytest.mark.parametrize("jump_ms", [-3_600_000, 315_360_000_000], ids=["-1 h", "+10 years"])
def test_a_clock_that_jumps_throws_nobody_out(tmp_path: Path, jump_ms: int) -> None:
    sign = tmp_path / "jump"
    with Mortal(tmp_path / "data", flaw=JUMPS.format(sign=str(sign))) as server:
        fill(server.address, 20, 1)
        healthy = Healthy(server.address)
        source = reader(server.address, "g")
        lost: list[str] = []
        source.subscribe(["t"], on_lost=lambda *_: lost.append("lost"))
        until(lambda: bool(source.assignment()) or source.poll(0.1) is not None)
        source.commit(offsets=[TopicPartition("t", 0, 5)], asynchronous=False)
        first, second = Peer(server.address), Peer(server.address)
        there = only_member(first, joining("first", instance="first"))

        sign.write_text(str(jump_ms))
        # Whoever comes now makes the server look who has been silent for too long.
        only_member(second, joining("second", instance="second"))
        for _ in range(10):
            healthy.check()
            source.poll(0.1)

        assert heartbeat(first, there) is Code.NONE
        assert lost == []
        source.commit(offsets=[TopicPartition("t", 0, 6)], asynchronous=False)
        (found,) = source.committed([TopicPartition("t", 0)], timeout=10)
        assert found.offset == 6
        source.close()
        for each in (first.socket, second.socket, healthy):
            each.close()


def test_when_files_run_out_those_connected_are_served_and_others_come_later(
    tmp_path: Path,
) -> None:
    with Mortal(tmp_path / "data", crash=FEW_FILES) as server:
        healthy = Healthy(server.address)
        with contextlib.ExitStack() as crowd:
            for _ in range(300):
                crowd.enter_context(Peer(server.address))
            for _ in range(20):
                healthy.check()

        # They have gone: there is room for somebody new.
        until(partial(_is_let_in, server.address))
        healthy.check()
        healthy.close()


def _is_let_in(address: str) -> bool:
    try:
        late = Healthy(address)
    except (EOFError, ConnectionError):
        return False
    late.check()
    late.close()
    return True


def test_a_second_server_in_the_same_directory_is_refused_by_name(tmp_path: Path) -> None:
    with Mortal(tmp_path / "data") as server:
        healthy = Healthy(server.address)
        code = "from mainstem.cli import main; main()"
        command = ["serve", str(tmp_path / "data"), "--kafka", ":0", "--admin", ":0"]

        second = subprocess.run(
            [sys.executable, "-c", code, *command],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

        assert second.returncode == 6
        assert f"process {server.pid}" in second.stderr
        assert server.address in second.stderr
        healthy.check()
        healthy.close()
