"""The servers that AMQP clients connect to: ours, and RabbitMQ as Debian packages it.

    apt-get install rabbitmq-server

RabbitMQ runs with a node name, a data directory and a port of its own, bound to 127.0.0.1 only; so
does the port mapper that Erlang needs (epmd). No plugin is enabled, all other settings are its
defaults.
"""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Protocol

from bench.kafka.processes import Usage, end
from bench.kafka.systems import ANY_PORT, COMMAND, PATIENCE_S

OURS, THEIRS = "mainstem", "RabbitMQ"
_HOME = Path("/usr/lib/rabbitmq")
_SCRIPT = _HOME / "bin" / "rabbitmq-server"
_GREETING = b"AMQP\x00\x00\x09\x01"


class System(Protocol):
    """A server under test."""

    name: str
    port: int

    def start(self) -> float:
        """Start it; return the milliseconds until it answered a client's first bytes."""

    def stop(self) -> None:
        """End it."""

    def usage(self) -> Usage:
        """Return CPU time and memory of its process so far."""


def missing() -> str:
    """Return what keeps the bench from running, and what to do; empty if nothing does."""
    if not _SCRIPT.exists():
        return "RabbitMQ is missing: apt-get install rabbitmq-server"
    if not Path("/usr/include/amqp.h").exists():
        return "librabbitmq is missing: apt-get install librabbitmq-dev"
    if shutil.which("cc") is None:
        return "a C compiler is missing: apt-get install gcc libc6-dev"
    return ""


def rabbitmq_version() -> str:
    """Return the version of the installed RabbitMQ."""
    (found,) = (_HOME / "lib").glob("rabbitmq_server-*")
    return found.name.rpartition("-")[2]


def address(system: System) -> str:
    """Return the URL that clients are given."""
    return f"amqp://guest:guest@127.0.0.1:{system.port}//"


class _Process:
    """A server process, and how long it took to answer."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self.port = _free_port()

    def spawn(self, command: list[str], environment: dict[str, str] | None = None) -> float:
        began = time.perf_counter()
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
        while not _answers(self.port):
            if self.process.poll() is not None or time.perf_counter() - began > PATIENCE_S:
                self.process.kill()
                raise SystemExit(f"{command[0]} did not start: {self._output.read_text()}")
            time.sleep(0.002)
        return (time.perf_counter() - began) * 1000


class Mainstem:
    """``mainstem serve --amqp``."""

    name = OURS

    def __init__(self, directory: Path, command: Path = COMMAND) -> None:
        self._directory = directory
        self._command = command
        self._process = _Process(directory.with_suffix(".out"))
        self.port = self._process.port

    def start(self) -> float:
        """Start it; return the milliseconds until it answered a client's first bytes."""
        given = ["--amqp", f"127.0.0.1:{self.port}", "--kafka", ANY_PORT, "--admin", ANY_PORT]
        return self._process.spawn([str(self._command), "serve", str(self._directory), *given])

    def stop(self) -> None:
        """End it."""
        end(self._process.process, PATIENCE_S)

    def usage(self) -> Usage:
        """Return CPU time and memory of its process so far."""
        return Usage.of(self._process.process.pid)


class RabbitMq:
    """RabbitMQ, a node of one, and its port mapper."""

    name = THEIRS

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = _Process(directory.with_suffix(".out"))
        self.port = self._process.port
        # A cookie is made in the home directory, so this is one of its own, too.
        self._environment = {
            **os.environ,
            "HOME": str(directory),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(_free_port()),
            "RABBITMQ_NODENAME": f"bench{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(_free_port()),
            "RABBITMQ_MNESIA_BASE": str(directory / "data"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "no-such-file"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            # Its start script then becomes the server, instead of waiting for it.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-noinput -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
            ),
        }

    def start(self) -> float:
        """Start it; return the milliseconds until it answered a client's first bytes."""
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / "plugins").write_text("[].\n")
        (self._directory / "rabbitmq.conf").write_text("")
        self._mapper = subprocess.Popen(["epmd"], env=self._environment)
        _wait_for(int(self._environment["ERL_EPMD_PORT"]))
        return self._process.spawn([str(_SCRIPT)], self._environment)

    def stop(self) -> None:
        """End it, and the port mapper."""
        end(self._process.process, PATIENCE_S)
        end(self._mapper, PATIENCE_S)

    def usage(self) -> Usage:
        """Return CPU time and memory of its process so far."""
        return Usage.of(self._process.process.pid)


def _wait_for(port: int) -> None:
    """Wait until something accepts connections on a port."""
    until = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < until:
        try:
            socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise SystemExit(f"nothing listens on port {port} after {PATIENCE_S} s")


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
            client.sendall(_GREETING)
            return client.recv(1) == b"\x01"
    except OSError:
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
