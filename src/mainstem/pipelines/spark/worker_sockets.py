"""Unix domain sockets between Spark's JVM and its Python processes on this machine.

How this works: for each task the JVM writes twice to the socket of a Python worker, first what to
run and then the rows, and the worker answers nothing in between. Over TCP the second write waits
until the first is acknowledged (Nagle's algorithm), and Linux delays the acknowledgement by 40 ms.
Unix domain sockets have no such delay. Spark uses no password on them, so they are in a directory
that only this user can open.
"""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

_MOST_BYTES = 103
"""Maximum length of a socket's path on macOS; Linux allows four bytes more."""
_NAME = "/.00000000-0000-0000-0000-000000000000.sock"


def socket_settings() -> dict[str, str]:
    """Return the settings that make Spark use Unix domain sockets; empty where it cannot."""
    directory = _directory()
    if directory is None:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": directory,
        "spark.python.daemon.module": "mainstem.pipelines.spark.worker_daemon",
    }


@cache
def _directory() -> str | None:
    """Create the sockets' directory, removed at exit; None if the paths would be too long."""
    if os.name != "posix":
        return None
    # Kept short, as paths in macOS's usual TMPDIR would be too long otherwise.
    directory = tempfile.mkdtemp(prefix="ms-")
    if len(os.fsencode(directory + _NAME)) > _MOST_BYTES:
        Path(directory).rmdir()
        return None
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
