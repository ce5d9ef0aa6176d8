"""A broker for tests: the server process, and the object that a test gets to use it."""

import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import mainstem
from mainstem.client.stem import Stem
from mainstem.core.errors import MainstemError

FREE_PORT = "127.0.0.1:0"
OFF = "off"


class LocalServer:
    """A server process with its own data directory, which can be killed and restarted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = directory.with_suffix(".log")
        self._moved_ms = 0
        self.kafka = FREE_PORT
        """The server's address as host:port; the same after a restart."""
        self._amqp = OFF
        self._start()

    @property
    def moved(self) -> bool:
        """Whether the clock was moved, so that the next test needs a new server."""
        return self._moved_ms > 0

    def answers(self) -> bool:
        """Return whether the server responds.

        That its process exists is no proof, as this is also true while it ends.
        """
        if self._process.poll() is not None:
            return False
        try:
            self.advance(0)
        except MainstemError:
            return False
        return True

    @property
    def amqp(self) -> str:
        """The address for AMQP clients as host:port.

        The server begins to listen there when this is read for the first time.
        """
        if self._amqp == OFF:
            self._amqp = self._tell(f"start amqp {FREE_PORT}", "started")
        return self._amqp

    def advance(self, milliseconds: int) -> None:
        """Move the server's clock forward, and wait until it has handled passed deadlines."""
        self._moved_ms += milliseconds
        self._tell(f"advance {milliseconds}", "moved")

    def crash_and_restart(self) -> None:
        """Kill the process as ``kill -9`` does, and start it again at the same address."""
        self.kill()
        self._start()

    def kill(self) -> None:
        """Kill the process; data that it has not written is lost."""
        # Popen closes its pipes when the block ends.
        with self._process:
            self._process.kill()

    def _start(self) -> None:
        arguments = (str(self._directory), self.kafka, self._amqp, str(self._moved_ms))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mainstem.client.testing.server_process", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                # In a session of its own: Ctrl-C must not end the server before the tests have
                # closed clients.
                start_new_session=True,
            )
        self.kafka = self._expect("ready")

    def _tell(self, command: str, answer: str) -> str:
        assert self._process.stdin is not None
        # If the server has ended, it does not answer, and ``_expect`` raises an error.
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{command}\n".encode())
        return self._expect(answer)

    def _expect(self, word: str) -> str:
        assert self._process.stdout is not None
        said, _, rest = self._process.stdout.readline().decode().strip().partition(" ")
        if said != word:
            self.kill()
            written = self._log.read_text("utf-8", "replace")[-2000:]
            raise MainstemError(f"the broker of the test run has ended; it wrote:\n{written}")
        return rest


class LocalBroker:
    """A broker for one test: names of its own, a clock to move, a crash to cause."""

    def __init__(self, server: LocalServer, namespace: str) -> None:
        self._server = server
        self._namespace = namespace
        self._stems = ExitStack()

    @property
    def kafka(self) -> str:
        """The address for Kafka clients (``bootstrap.servers``): host:port."""
        return self._server.kafka

    @property
    def amqp_url(self) -> str:
        """The URL for AMQP 0-9-1 clients; its virtual host is used by this test only."""
        return f"amqp://guest:guest@{self._server.amqp}/{self._namespace}"

    def topic(self, name: str) -> str:
        """Return the name on the server for a topic of this test: with a prefix of its own."""
        return f"{self._namespace}.{name}"

    def group(self, name: str) -> str:
        """Return a group's name, or a transactional id, with a prefix of this test's own."""
        return f"{self._namespace}.{name}"

    def connect(self) -> Stem:
        """Connect to the broker with ``mainstem.connect``; closed when the test ends."""
        return self._stems.enter_context(mainstem.connect(self.kafka))

    def advance(self, seconds: float) -> None:
        """Move the broker's clock forward, and wait until it has handled all deadlines that passed.

        Session timeouts, transaction timeouts and retention use this clock. Request timeouts use
        real time, in the broker and in the client.
        """
        self._server.advance(round(seconds * 1000))

    def crash_and_restart(self) -> None:
        """Kill the broker as ``kill -9`` does, and start it again at the same address."""
        self._server.crash_and_restart()

    def close(self) -> None:
        """Close the connections that the test left open."""
        self._stems.close()
