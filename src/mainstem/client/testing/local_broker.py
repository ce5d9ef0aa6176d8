"""A broker for tests: the process behind it, and what one test sees of it."""

import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import mainstem
from mainstem.client.stem import Stem
from mainstem.core.errors import MainstemError


class LocalServer:
    """A server process in a directory of its own, which can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = directory.with_suffix(".log")
        self._moved_ms = 0
        self.kafka = ""
        """Where it listens, as host:port; the same after a restart."""
        self._start(port=0)

    @property
    def moved(self) -> bool:
        """Whether its clock is not the time of day any more."""
        return self._moved_ms > 0

    def answers(self) -> bool:
        """Whether it is there: asked itself, as the system calls one alive that is about to end."""
        if self._process.poll() is not None:
            return False
        try:
            self.advance(0)
        except MainstemError:
            return False
        return True

    def advance(self, milliseconds: int) -> None:
        """Move the clock forward; what became due has been done when this returns."""
        self._moved_ms += milliseconds
        assert self._process.stdin is not None
        # One that has ended by itself is noticed when it does not answer.
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"advance {milliseconds}\n".encode())
        self._expect("moved")

    def crash_and_restart(self) -> None:
        """Kill the process as ``kill -9`` does, and start it again where it was."""
        self.kill()
        self._start(port=int(self.kafka.rpartition(":")[2]))

    def kill(self) -> None:
        """End the process at once; what it has not written is lost."""
        # Popen closes the pipes when the block ends.
        with self._process:
            self._process.kill()

    def _start(self, port: int) -> None:
        arguments = (str(self._directory), str(port), str(self._moved_ms))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mainstem.client.testing.server_process", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                # Ctrl-C is for the test run, which still needs the server to close what is open.
                start_new_session=True,
            )
        self.kafka = self._expect("ready")

    def _expect(self, word: str) -> str:
        assert self._process.stdout is not None
        said, _, rest = self._process.stdout.readline().decode().strip().partition(" ")
        if said != word:
            self.kill()
            written = self._log.read_text("utf-8", "replace")[-2000:]
            raise MainstemError(f"the broker of the test run has ended; it wrote:\n{written}")
        return rest


class LocalBroker:
    """What a test gets: a broker, names that no other test uses, its clock and its plug."""

    def __init__(self, server: LocalServer, namespace: str) -> None:
        self._server = server
        self._namespace = namespace
        self._stems = ExitStack()

    @property
    def kafka(self) -> str:
        """Where Kafka clients connect (``bootstrap.servers``): host:port."""
        return self._server.kafka

    def topic(self, name: str) -> str:
        """Return the name of a topic that belongs to this test alone."""
        return f"{self._namespace}.{name}"

    def group(self, name: str) -> str:
        """Return the name of a group, or a transactional id, that belongs to this test alone."""
        return f"{self._namespace}.{name}"

    def connect(self) -> Stem:
        """Return the broker through ``mainstem.connect``; it is closed when the test ends."""
        return self._stems.enter_context(mainstem.connect(self.kafka))

    def advance(self, seconds: float) -> None:
        """Move the broker's clock forward; what became due has been done when this returns.

        Sessions of silent members, transactions and retention go by this clock. How long a client
        waits for an answer goes by the time of day, here and in the client.
        """
        self._server.advance(round(seconds * 1000))

    def crash_and_restart(self) -> None:
        """Kill the broker as ``kill -9`` does, and start it again at the same address."""
        self._server.crash_and_restart()

    def close(self) -> None:
        """Close what the test connected and left open."""
        self._stems.close()
