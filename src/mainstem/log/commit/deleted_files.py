"""Files that are no longer part of the log, removed once that is durable.

A file is removed only after the write-ahead log durably says that it is not needed, and before a
checkpoint drops the entry that says so. A crash in between may leave superfluous files, which
recovery removes, but never loses a needed one.
"""

import logging
import threading

from mainstem.log.commit.group_commit import Committer
from mainstem.log.disk_partition import DiskPartition
from mainstem.log.files.files import Files
from mainstem.log.segments.file_cache import FileCache
from mainstem.log.segments.segment import Segment

_logger = logging.getLogger("mainstem.log")


class DeletedFiles:
    """Collects files to remove under the log's lock, and removes them after the next commit."""

    def __init__(
        self, files: Files, lock: threading.Lock, committer: Committer, file_cache: FileCache
    ) -> None:
        self._files, self._lock = files, lock
        self._committer = committer
        self._file_cache = file_cache
        self._paths: list[str] = []
        self._directories: list[str] = []
        """Directories of deleted partitions, removed after their files."""

    def add_segment(self, segment: Segment) -> None:
        """Collect a segment's files for removal; called with the log's lock held."""
        self._paths += (segment.path, segment.index_path)

    def add_partition(self, partition: DiskPartition) -> None:
        """Collect a partition's files and directory for removal; called with the lock held."""
        for segment in partition.segments:
            self.add_segment(segment)
        self._directories.append(partition.directory)

    def remove(self) -> None:
        """Commit the entries that say the collected files are not needed, then remove the files."""
        with self._lock:
            if not self._paths and not self._directories:
                return
            self._committer.gather()
            paths, self._paths = self._paths, []
            directories, self._directories = self._directories, []
        self._committer.commit()
        if self._committer.failed is not None:
            return
        for path in paths:
            self._file_cache.drop(path)
            self._remove(path)
        for directory in directories:
            # A checkpoint in progress may have saved an index meanwhile.
            for name in self._files.names(directory):
                if name.endswith((".seg", ".idx")):
                    self._remove(f"{directory}/{name}")
            self._remove(directory)

    def _remove(self, path: str) -> None:
        try:
            self._files.remove(path)
        except OSError as error:
            # A directory with a foreign file cannot be removed; leave it.
            _logger.warning("cannot remove %s: %s", path, error)
