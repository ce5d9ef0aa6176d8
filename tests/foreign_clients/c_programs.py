"""Programs in C, compiled by the tests."""

import shutil
import subprocess
from pathlib import Path

import pytest

LIBZMQ = [
    pytest.mark.peers,
    pytest.mark.skipif(
        shutil.which("gcc") is None or not Path("/usr/include/zmq.h").exists(),
        reason="needs a compiler and libzmq (Debian: gcc, libzmq3-dev)",
    ),
]


def compiled(name: str, folder: Path, *libraries: str) -> str:
    """Compile a program of the folder ``c`` into another folder; return its path."""
    source = Path(__file__).parent / "c" / f"{name}.c"
    command = ["gcc", "-Wall", "-Werror", "-O1", "-o", str(folder / name), str(source)]
    command += [f"-l{each}" for each in libraries]
    subprocess.run(command, check=True, timeout=60)
    return str(folder / name)
