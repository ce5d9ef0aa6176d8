"""``mainstem pub --listen``: lines of many TCP senders, through real sockets and processes."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.in_process_server import serving
from tests.processes import OnTerminal, wait_until

from mainstem.cli.exit_codes import Exit
from mainstem.node.data_directory import holder_of

MAINSTEM = (sys.executable, "-c", "from mainstem.cli import main; main()")
PATIENCE_S = 60


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("served")) as address:
        yield address


class Listening:
    """A listening ``pub``, where it listens, and what it said in the end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.said: list[str] = []
        match = None
        while match is None:
            self.said.append(self.line())
            match = re.search(r"listening on ([\d.]+):(\d+)", self.said[-1])
        self.place = (match[1], int(match[2]))

    def line(self) -> str:
        assert self.process.stderr
        found = self.process.stderr.readline().decode()
        assert found, f"it ended, and said {self.said}"
        return found

    def connect(self) -> socket.socket:
        return socket.create_connection(self.place, PATIENCE_S)

    def stop(self, number: int = signal.SIGINT) -> str:
        self.process.send_signal(number)
        return self.end(-number)

    def end(self, code: int = 0) -> str:
        _, said = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == code, said
        return said.decode()


@contextmanager
def listening(kafka: str, topic: str, *options: str) -> Iterator[Listening]:
    command = [*MAINSTEM, "pub", topic, "--at", kafka, "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            yield Listening(process)
        finally:
            process.kill()


def read(kafka: str, topic: str, *options: str) -> list[str]:
    command = [*MAINSTEM, "sub", topic, "--at", kafka, "-e", "-q", *options]
    done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S)
    return done.stdout.decode().splitlines()


def test_every_line_of_many_senders_is_an_event_in_the_senders_order(kafka: str) -> None:
    with listening(kafka, "many", "-c", "20000") as pub:

        def send(sender: int) -> None:
            with pub.connect() as connected:
                for number in range(1000):
                    connected.sendall(f"{sender}:{number}\n".encode())

        threads = [threading.Thread(target=send, args=(sender,)) for sender in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said = pub.end()

    assert "20,000" in said
    by_sender: dict[str, list[int]] = defaultdict(list)
    # In one partition each, as keys are the senders.
    for line in read(kafka, "many"):
        sender, number = line.split(":")
        by_sender[sender].append(int(number))
    assert {sender: sorted(numbers) for sender, numbers in by_sender.items()} == {
        str(sender): list(range(1000)) for sender in range(20)
    }


def test_lines_have_keys_and_keep_their_order(kafka: str) -> None:
    with listening(kafka, "keyed", "-K", ":", "-c", "500") as pub, pub.connect() as connected:
        connected.sendall(b"".join(b"k:%d\n" % number for number in range(500)))
        pub.end()

    assert read(kafka, "keyed", "-K", "=") == [f"k={number}" for number in range(500)]


def test_a_last_line_without_line_end_counts_and_signals_end_it_with_a_count(kafka: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with listening(kafka, f"last{number}") as pub:
            with pub.connect() as whole:
                whole.sendall(b"one\ntwo")
            with pub.connect() as unfinished:
                unfinished.sendall(b"three\nfo")
                # Both have been read when this one's line is there.
                process = subprocess.run(
                    [*MAINSTEM, "sub", f"last{number}", "--at", kafka, "-c", "3"],
                    capture_output=True,
                    check=True,
                    timeout=PATIENCE_S,
                )
                said = pub.stop(number)

        assert sorted(process.stdout.split()) == [b"one", b"three", b"two"]
        assert "1 unfinished lines" in said
        assert "published 3" in said


def test_a_line_that_is_too_long_cuts_off_its_sender_only(kafka: str) -> None:
    with listening(kafka, "long", "-c", "2") as pub, pub.connect() as good:
        good.sendall(b"before\n")
        with pub.connect() as bad, pytest.raises(OSError, match=r"reset|Broken pipe"):
            send_without_end(bad)
        good.sendall(b"after\n")
        said = pub.end()

    assert "a line is longer than" in said
    assert sorted(read(kafka, "long")) == ["after", "before"]


def test_a_line_that_is_no_envelope_is_reported_and_the_others_are_published(kafka: str) -> None:
    with listening(kafka, "enclosed", "-J", "-c", "3") as pub, pub.connect() as connected:
        connected.sendall(b'{"payload": "a"}\nbroken\n{"payload": "b"}\n')
        said = pub.line()
        pub.end()

    assert "a line was not published" in said
    assert sorted(read(kafka, "enclosed")) == ["a", "b"]


def test_a_log_that_is_stopped_stops_the_senders(kafka: str) -> None:
    with listening(kafka, "slow") as pub, pub.connect() as connected:
        os.kill(pub.process.pid, signal.SIGSTOP)
        connected.setblocking(False)
        sent = sent_until_full(connected)
        os.kill(pub.process.pid, signal.SIGCONT)
        connected.setblocking(True)
        connected.sendall((b"x" * 1023 + b"\n")[sent % 1024 :] + b"end\n")
        connected.close()
        while read(kafka, "slow", "-o", "-1").count("end") == 0:
            pass
        resident = resident_bytes(pub.process.pid)
        pub.stop()

    assert len(read(kafka, "slow")) == sent // 1024 + 2
    assert resident < 256 << 20


def send_without_end(connected: socket.socket) -> None:
    while True:
        connected.sendall(b"x" * 65536)


def sent_until_full(connected: socket.socket) -> int:
    """Send lines of 1,024 bytes until the socket takes no more; return how many bytes it took."""
    sent = 0
    while True:
        try:
            sent += connected.send((b"x" * 1023 + b"\n")[sent % 1024 :])
        except BlockingIOError:
            return sent


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_port_that_is_taken_or_no_port_is_an_error(kafka: str) -> None:
    for place, code in (("127.0.0.1", 2), ("127.0.0.1:99999", 2), (kafka, 6)):
        command = [*MAINSTEM, "pub", "t", "--at", kafka, "--listen", place]
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == code, done.stderr


def test_other_commands_are_told_at_once_who_holds_the_directory(tmp_path: Path) -> None:
    with listening(str(tmp_path / "data"), "held"):
        holder = holder_of(tmp_path / "data")
        # Others wait for a brief one.
        assert holder
        assert not holder.brief
        command = [*MAINSTEM, "topic", "ls", "--at", str(tmp_path / "data")]
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)

    assert done.returncode == Exit.REFUSED
    assert b"is held by process" in done.stderr


def test_a_closed_terminal_ends_it_after_what_was_read(kafka: str, tmp_path: Path) -> None:
    command = [*MAINSTEM, "pub", "hung", "--at", kafka, "--listen", "127.0.0.1:0"]
    with OnTerminal(command, tmp_path, os.environ) as it:
        wait_until(lambda: b"listening on" in it.shown, it.told)
        match = re.search(rb"listening on ([\d.]+):(\d+)", it.shown)
        assert match
        place = (match[1].decode(), int(match[2]))
        with socket.create_connection(place, PATIENCE_S) as connected:
            connected.sendall(b"one\n")
            wait_until(lambda: read(kafka, "hung") == ["one"], it.told)
            it.close()

            assert it.wait() == -signal.SIGHUP
