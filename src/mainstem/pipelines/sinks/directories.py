"""Replaces tables that are directories by their copies, without a moment in which there is none.

How this works: Linux exchanges two directories in one step (``renameat2``). A reader that has
opened the old table, but not yet all of its files, looks for these in the new directory; so they
are linked there (``readers_need``) until the next run. A marker file tells the copy from the old
directory, so that a swap that a crash interrupted is completed and not reversed.
"""

import ctypes
import errno
import os
import shutil
from pathlib import Path

from mainstem.pipelines.errors import RunRefused

_MARKER = ".mainstem-swap"
"""File in a copy that becomes the table, with the copy's name, until the swap is complete."""
_LINKS = ".mainstem-links"
"""File with the names of the linked files."""
_AT_FDCWD = -100
_EXCHANGE = 2
_NOT_SUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


def is_local(path: str) -> bool:
    """Return whether a path is on this machine's file systems, not an object store's URL."""
    return "://" not in path or path.startswith("file://")


def adopt(path: Path, name: str, readers_need: str | None = None) -> None:
    """Replace the directory by its copy ``PATH.NAME``; keep the old one as ``PATH.before-NAME``.

    Files of the old table that match the glob ``readers_need`` are linked into the new one, for
    readers that have opened the old table but not yet these files; so no file of the new table may
    have the name of a different file of the old one. Repeating the call after a crash completes the
    swap. If there is no copy, the swap is taken to have been made already.
    """
    copy, kept = path.with_name(f"{path.name}.{name}"), path.with_name(f"{path.name}.before-{name}")
    marker = path / _MARKER
    if not marker.exists() or marker.read_text() != name:
        if not copy.exists():
            return
        if not path.exists():
            copy.rename(path)
            return
        if kept.exists():
            raise RunRefused(f"{kept} exists from an earlier swap; remove it")
        if readers_need:
            _link(path, copy, readers_need)
        (copy / _MARKER).write_text(name)
        if not _exchange(copy, path):
            (copy / _MARKER).unlink()
            # The system cannot exchange them, so there is no table for a moment.
            path.rename(kept)
            copy.rename(path)
            return
    if copy.exists():
        copy.rename(kept)
    marker.unlink()


def remove_links(path: Path) -> None:
    """Remove the links to files of the replaced table, made for readers that had it open."""
    file = path / _LINKS
    if file.exists():
        for each in file.read_text().splitlines():
            (path / each).unlink(missing_ok=True)
        file.unlink()


def linked_copy(path: Path, copy: Path) -> None:
    """Copy a directory whose files never change, by hard links, which take no space."""
    draft = copy.with_name(f".{copy.name}")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(path, draft, copy_function=os.link)
    draft.rename(copy)


def _link(old: Path, new: Path, pattern: str) -> None:
    own = {file.name for file in new.glob(pattern)}
    listed = new / _LINKS
    if listed.exists():
        # An earlier call was interrupted by a crash; files that it linked are not the copy's own.
        own -= set(listed.read_text().splitlines())
    files = [file for file in old.glob(pattern) if file.name not in own]
    listed.write_text("\n".join(file.name for file in files))
    for file in files:
        (new / file.name).unlink(missing_ok=True)
        (new / file.name).hardlink_to(file)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two directories; return False if this system cannot do that."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_SUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
