"""Runs a PostgreSQL or a Redis for the demo, in a directory of its own, until stdin is closed.

Usage: ``python -m mainstem.cli.demo.companion postgres|redis``. It prints the address when the
server is ready, or why it cannot run. Like ``cli/child_process.py``, it stops when all processes
that have the other end of its stdin open have ended, even by ``kill -9``; and it removes what the
server wrote.
"""

import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_START_S = 30.0
_TURN_S = 0.05
_SETTINGS = """
wal_level = logical
listen_addresses = ''
unix_socket_directories = '{directory}'
fsync = off
max_wal_size = 128MB
"""


class Unavailable(Exception):
    """Raised if the server cannot run on this machine; the message says why."""


class Server(NamedTuple):
    """How to start a server, and how to reach it."""

    command: Sequence[str]
    address: str
    is_ready: Callable[[], bool]
    user: str | None = None
    """The user that it runs as; None for this process's."""


def postgres(directory: Path) -> Server:
    """Create a database cluster; PostgreSQL listens on a socket in the directory only."""
    programs = _postgres_programs()
    # PostgreSQL refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    if user:
        entry = pwd.getpwnam(user)
        os.chown(directory, entry.pw_uid, entry.pw_gid)
    base = directory / "base"
    command = [str(programs / "initdb"), "-D", str(base), "-U", "postgres", "--auth=trust"]
    try:
        subprocess.run(
            [*command, "--encoding=utf8", "--no-sync"],
            check=True,
            capture_output=True,
            text=True,
            user=user,
            cwd=directory,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise Unavailable(f"PostgreSQL cannot create a database: {said.strip()}") from None
    with (base / "postgresql.conf").open("a") as settings:
        settings.write(_SETTINGS.format(directory=directory))

    def is_ready() -> bool:
        with suppress(OSError):
            return (base / "postmaster.pid").read_text().splitlines()[7:8] == ["ready   "]
        return False

    address = f"postgresql://postgres@/postgres?host={directory}"
    return Server([str(programs / "postgres"), "-D", str(base)], address, is_ready, user)


def _postgres_programs() -> Path:
    found = find_spec("pgserver")
    if found is not None and found.submodule_search_locations:
        programs = Path(found.submodule_search_locations[0]) / "pginstall" / "bin"
        if (programs / "postgres").exists():
            return programs
    if (known := shutil.which("initdb")) and shutil.which("postgres"):
        return Path(known).resolve().parent
    raise Unavailable("there is no PostgreSQL (pip install 'mainstem[demo]')")


def redis(directory: Path) -> Server:
    """Prepare a Redis that listens on a socket in the directory only, and stores nothing."""
    program = shutil.which("redis-server")
    if program is None:
        raise Unavailable("there is no redis-server (on Debian: apt install redis-server)")
    socket = directory / "redis.sock"
    command = [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir"]
    return Server([*command, str(directory)], f"unix://{socket}", socket.exists)


_KINDS: dict[str, Callable[[Path], Server]] = {"postgres": postgres, "redis": redis}


def main(kind: str) -> int:
    """Run the server until stdin is closed; return the exit code."""
    # The parent ends this process by closing stdin, so ignore the signals of the terminal.
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # Not in TMPDIR, because the path of a socket can have 107 characters at most.
    directory = Path(tempfile.mkdtemp(prefix="mainstem-demo-", dir="/tmp"))
    try:
        return _run(_KINDS[kind](directory), directory)
    except Unavailable as missing:
        print(missing, file=sys.stderr, flush=True)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _run(server: Server, directory: Path) -> int:
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            server.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            user=server.user,
            cwd=directory,
        )
    try:
        until = time.monotonic() + _START_S
        while not server.is_ready():
            if process.poll() is not None or time.monotonic() > until:
                said = (directory / "log").read_text(errors="replace").strip().splitlines()
                raise Unavailable(f"{server.command[0]} did not start: {said[-1:]}")
            if _stdin_closed(_TURN_S):
                return 0
        print(server.address, flush=True)
        while process.poll() is None and not _stdin_closed(1.0):
            pass
        return process.poll() or 0
    finally:
        # SIGINT makes PostgreSQL stop fast, without waiting for clients.
        process.send_signal(signal.SIGINT)
        process.wait()


def _stdin_closed(patience_s: float) -> bool:
    readable, _, _ = select.select([0], [], [], patience_s)
    return bool(readable) and not os.read(0, 4096)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
