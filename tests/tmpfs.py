"""Small file systems of their own, for tests of disks that are full or read-only."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted_tmpfs(path: Path, size: str, what: str) -> Iterator[Path]:
    """Mount a tmpfs at a new directory; where that is not possible, skip and say ``what``."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "mainstem-test", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"NOT TESTED: {what}; there is no mount command here")
    if mounted.returncode:
        pytest.skip(f"NOT TESTED: {what}; cannot mount: {mounted.stderr}")
    try:
        yield path
    finally:
        # Lazily, since a failed test may have left files open.
        subprocess.run(["umount", "-l", str(path)], check=True)
