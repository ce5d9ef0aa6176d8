"""A disk in memory that records every operation, so that it can be cut off at any of them.

How this works: ``SimFiles`` implements the port ``Files``. What a process sees (its page cache) is
in ``data`` and ``names``; every change is also noted in ``trace``, with the syncs between. A power
cut may leave any mixture of the changes that were not synced; ``crashes`` makes those mixtures.
A file's bytes and its name are different things: ``sync`` of a file says nothing about its name,
``sync_dir`` says nothing about the bytes. A directory's own name is in the directory above.

Bytes are shared between disks until somebody writes to them, so that a disk costs little.
"""

import errno
import os
from collections.abc import Callable
from typing import NamedTuple

from mainstem.log.files.files import Buffer


class Write(NamedTuple):
    """Bytes written into a file."""

    node: int
    position: int
    data: bytes


class Resize(NamedTuple):
    """A file cut, or lengthened by zeros (then never shortened, if ``grow`` only)."""

    node: int
    size: int
    grow: bool


class Sync(NamedTuple):
    """What was written to a file is durable."""

    node: int


class Name(NamedTuple):
    """A file got a name; ``old`` is the name it had before in the same directory."""

    directory: str
    name: str
    node: int
    old: str | None


class Remove(NamedTuple):
    """A name is gone: of a file, or of an empty directory."""

    directory: str
    name: str


class MakeDir(NamedTuple):
    """A directory got a name."""

    directory: str
    name: str


class SyncDir(NamedTuple):
    """The names in a directory are durable."""

    directory: str


Change = Write | Resize | Name | Remove | MakeDir
Operation = Change | Sync | SyncDir


class Image(NamedTuple):
    """What is on a disk: files by path, directories, and the bytes of each file."""

    names: dict[str, int]
    dirs: set[str]
    data: dict[int, bytes]

    def copy(self) -> "Image":
        """Return an image that can be changed without this one."""
        return Image(dict(self.names), set(self.dirs), dict(self.data))


def blank() -> Image:
    """Return a disk with nothing but the data directory."""
    return Image({}, {""}, {})


def split(path: str) -> tuple[str, str]:
    """Return the directory and the name in it."""
    directory, _, name = path.rpartition("/")
    return directory, name


def join(directory: str, name: str) -> str:
    """Return the path of a name in a directory."""
    return f"{directory}/{name}" if directory else name


class SimFile:
    """One open file of a simulated disk; it outlives its name."""

    def __init__(self, files: "SimFiles", node: int, path: str) -> None:
        self._files = files
        self._node = node
        self._path = path

    def fileno(self) -> int:
        """Return a number that is no file descriptor of anything."""
        return -1

    def pread(self, length: int, position: int) -> bytes:
        """Read up to ``length`` bytes."""
        self._files.before("read", self._path)
        return bytes(self._files.data[self._node][position : position + length])

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at ``position``, or fail half-way as a full disk does."""
        whole = bytes(data)
        grows = position + len(whole) > self.size()
        try:
            self._files.before("grow" if grows else "write", self._path)
        except OSError:
            half = whole[: len(whole) // 2]
            if half:
                self._files.change(Write(self._node, position, half))
            raise
        self._files.change(Write(self._node, position, whole))

    def allocate(self, position: int, length: int) -> None:
        """Reserve space, which reads as zeros."""
        self._files.before("allocate", self._path)
        self._files.change(Resize(self._node, position + length, grow=True))

    def size(self) -> int:
        """Return the size in bytes."""
        return len(self._files.data[self._node])

    def truncate(self, size: int) -> None:
        """Cut the file, or lengthen it by zeros."""
        self._files.before("truncate", self._path)
        self._files.change(Resize(self._node, size, grow=False))

    def sync(self) -> None:
        """Make all that was written durable, unless this disk lies about it."""
        self._files.before("sync", self._path)
        if not self._files.lies(self._path):
            self._files.trace.append(Sync(self._node))


class SimFiles:
    """Implements the port ``Files`` in memory."""

    def __init__(self, image: Image | None = None) -> None:
        image = (image or blank()).copy()
        self.names_of = image.names
        self.dirs = image.dirs
        self.data: dict[int, bytes | bytearray] = dict(image.data)
        self.trace: list[Operation] = []
        self._next_node = max(self.data, default=0) + 1
        self._salts = self._next_node
        self.lies: Callable[[str], bool] = _never
        """Whether syncing a path (a directory ends in ``/``) does nothing: a seeded fault."""
        self.before: Callable[[str, str], None] = _nothing
        """Called before each operation with its kind and path; may raise OSError, or do more."""

    @classmethod
    def after(cls, base: Image, operations: list[Operation]) -> "SimFiles":
        """Return the disk of a machine that did all that, and whose power stayed on."""
        files = cls(base)
        files.trace = list(operations)
        for operation in operations:
            files.perform(operation)
        files._next_node = max(files.data, default=0) + 1
        return files

    def image(self) -> Image:
        """Return what a process sees now."""
        data = {node: bytes(content) for node, content in self.data.items()}
        return Image(dict(self.names_of), set(self.dirs), data)

    def change(self, operation: Change) -> None:
        """Do something, and remember it."""
        self.trace.append(operation)
        self.perform(operation)

    def perform(self, operation: Operation) -> None:
        """Let processes see what an operation does."""
        match operation:
            case Write() | Resize():
                content = self.data.setdefault(operation.node, b"")
                if isinstance(content, bytes):
                    content = self.data[operation.node] = bytearray(content)
                alter(content, operation)
            case Sync() | SyncDir():
                pass
            case _:
                bind(self.names_of, self.dirs, operation)
                if isinstance(operation, Name):
                    self.data.setdefault(operation.node, b"")

    def open(self, path: str, *, create: bool = False) -> SimFile:
        """Open for reading and writing."""
        self.before("open", path)
        node = self.names_of.get(path)
        if node is None:
            directory, name = split(path)
            if not create or directory not in self.dirs:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self.before("create", path)
            node, self._next_node = self._next_node, self._next_node + 1
            self.change(Name(directory, name, node, None))
        return SimFile(self, node, path)

    def make_dir(self, path: str) -> None:
        """Make a directory, and those above it."""
        if path in self.dirs:
            return
        directory, name = split(path)
        self.make_dir(directory)
        self.before("make_dir", path)
        self.change(MakeDir(directory, name))

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        prefix = f"{path}/" if path else ""
        skip = len(prefix)
        return sorted(
            each[skip:]
            for each in (*self.names_of, *self.dirs)
            if each.startswith(prefix) and "/" not in each[skip:] and each
        )

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing what was there."""
        self.before("rename", new)
        directory, name = split(new)
        node = self.names_of.get(old)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        assert split(old)[0] == directory, "the log renames within one directory only"
        self.change(Name(directory, name, node, split(old)[1]))

    def remove(self, path: str) -> None:
        """Remove a file or an empty directory."""
        self.before("remove", path)
        if path in self.dirs and self.names(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        if path in self.names_of or path in self.dirs:
            self.change(Remove(*split(path)))

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable, unless this disk lies about it."""
        self.before("sync_dir", path)
        if path not in self.dirs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not self.lies(f"{path}/"):
            self.trace.append(SyncDir(path))

    def sync_all(self) -> None:
        """Make everything durable, but for what this disk lies about."""
        self.before("sync_all", "")
        for path, node in self.names_of.items():
            if not self.lies(path):
                self.trace.append(Sync(node))
        for path in sorted(self.dirs):
            if not self.lies(f"{path}/"):
                self.trace.append(SyncDir(path))

    def salt(self) -> int:
        """Return another number each time, and the same ones in every run."""
        self._salts += 1
        return self._salts * 0x9E3779B1 & 0xFFFFFFFF

    def lock(self, listens: str | None, admin: str | None = None) -> None:
        """Take the directory; a simulated disk has only one user."""

    def check_there(self) -> None:
        """Do nothing: nobody deletes this directory."""

    def unlock(self) -> None:
        """Let go of the directory."""


def alter(content: bytearray, change: Write | Resize) -> None:
    """Change the bytes of a file; what was skipped over reads as zeros."""
    if isinstance(change, Write):
        missing = change.position - len(content)
        if missing > 0:
            content.extend(bytes(missing))
        content[change.position : change.position + len(change.data)] = change.data
    elif change.size > len(content):
        content.extend(bytes(change.size - len(content)))
    elif not change.grow:
        del content[change.size :]


def bind(names: dict[str, int], dirs: set[str], change: Name | Remove | MakeDir) -> None:
    """Change the names in a directory."""
    path = join(change.directory, change.name)
    match change:
        case Name(directory, _, node, old):
            if old is not None:
                names.pop(join(directory, old), None)
            names[path] = node
        case Remove():
            names.pop(path, None)
            dirs.discard(path)
        case MakeDir():
            dirs.add(path)


def _never(path: str) -> bool:
    return False


def _nothing(kind: str, path: str) -> None:
    pass
