"""Opens the log that a command works on (``--at``): a data directory, or a server's address."""

import errno
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstem.cli.exit_codes import NotFound, Refused
from mainstem.core.errors import DirectoryInUse

if TYPE_CHECKING:
    from mainstem.client.stem import Stem

DEFAULT_DIRECTORY = "mainstem-data"
IN_MEMORY = ":memory:"
_HOST_ALONE = re.compile(r"localhost|:?\d{1,5}|\d+(\.\d+){3}")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}")

HOLDER_S = 10.0
"""Seconds that a command waits for another command that holds the data directory."""
_LOOK_S = 0.02
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


at_option = click.option(
    "--at",
    metavar="DIR|HOST:PORT",
    help="Data directory or server address.  [default: $MAINSTEM_AT, else ./mainstem-data]",
)


def target_of(at: str | None) -> str:
    """Return the directory or address: from ``--at``, $MAINSTEM_AT, or the default."""
    context = click.get_current_context(silent=True)
    target = at or (context and context.find_root().obj) or DEFAULT_DIRECTORY
    if _HOST_ALONE.fullmatch(target) and not Path(target).exists():
        raise Refused(
            f"{target} is neither a data directory nor HOST:PORT: write the address of a server as "
            f"127.0.0.1:9092, or a directory of this name as ./{target}"
        )
    return target


def is_address(target: str) -> bool:
    """Return whether a target is host:port.

    It is a directory if one of that name exists, or if it has a slash.
    """
    return bool(_ADDRESS.fullmatch(target)) and not Path(target).is_dir()


def directory_of(at: str | None) -> Path:
    """Return the data directory; raises Refused for an address, and NotFound without directory."""
    target = target_of(at)
    if is_address(target):
        raise Refused(f"this needs the data directory itself, not an address ({target})")
    if not Path(target).is_dir():
        raise NotFound(nothing_at(target))
    return Path(target)


def server_address(at: str | None, who: str) -> str:
    """Return the target if it is an address, else that of the directory's server."""
    from mainstem.node.data_directory import holder_of  # noqa: PLC0415 - only what is used

    target = target_of(at)
    if is_address(target):
        return target
    holder = holder_of(Path(target)) if Path(target).is_dir() else None
    if holder and holder.listens:
        return holder.listens
    raise Refused(
        f"{who} read from a server, and none serves {target}; start one (mainstem serve), or "
        "give its address with --at HOST:PORT"
    )


def open_target(
    at: str | None, *, create: bool = False, reads: bool = False, stays: bool = False
) -> "Stem":
    """Open the log that ``at`` names; only with ``create`` may a directory be created.

    With ``reads``, open a read-only view of what the directory has now. If another command has the
    directory open, wait until it is closed, unless ``stays``: that command may be the other end of
    a pipe, and wait for this one.
    """
    target = target_of(at)
    if is_address(target):
        return _connect(target)
    # Import the log's modules only where they are used.
    import mainstem  # noqa: PLC0415
    from mainstem.node.data_directory import holder_of  # noqa: PLC0415

    if target == IN_MEMORY:
        return mainstem.open(target)
    if not create and not Path(target).exists():
        raise NotFound(nothing_at(target))
    patience = time.monotonic() + HOLDER_S
    while True:
        holder = holder_of(Path(target))
        if holder and holder.listens:
            return _connect(holder.listens)
        try:
            return mainstem.open(target) if stays else _open(Path(target), reads=reads)
        except DirectoryInUse:
            if (holder and not holder.brief) or time.monotonic() >= patience:
                raise
        except OSError as error:
            if reads or error.errno not in _READ_ONLY:
                raise
            raise Refused(
                f"{target} cannot be written ({error.strerror}: {error.filename}); what only "
                "reads works there: sub -e, topic ls, group ls, queue ls, verify"
            ) from None
        time.sleep(_LOOK_S)


def _open(path: Path, *, reads: bool) -> "Stem":
    from mainstem.client.embedded.stem import open_briefly, view_stem  # noqa: PLC0415

    return view_stem(path) if reads else open_briefly(path)


def _connect(address: str) -> "Stem":
    # Importing librdkafka takes a while.
    import mainstem  # noqa: PLC0415

    return mainstem.connect(address)


def nothing_at(target: str) -> str:
    """Return the error text for a data directory that does not exist."""
    return (
        f"there is no data directory {target}; publish something to make one "
        "(mainstem pub TOPIC VALUE), or name another with --at or MAINSTEM_AT"
    )
