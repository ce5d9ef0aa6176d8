"""A real PostgreSQL for a while."""

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp


@contextmanager
def postgresql() -> Iterator[str]:
    """Start one in a directory of its own, and say where it is."""
    # Its socket's path may not be long, and other users have to get there.
    directory = Path(mkdtemp(dir="/tmp"))
    directory.chmod(0o777)
    with warnings.catch_warnings():
        # About a directory for runtime files, which is not used.
        warnings.simplefilter("ignore")
        from pgserver.postgres_server import get_server  # noqa: PLC0415 - it warns when imported

    server = get_server(directory / "base", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)
