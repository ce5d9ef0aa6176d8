"""Errors of pipelines: invalid definitions, refused or failed runs, damaged state."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainstem.core.errors import Failure, MainstemError


class InvalidDefinition(MainstemError):
    """Raised if a pipeline file cannot be run; before any batch."""


@contextmanager
def importing(who: str, package: str, *, extra: str) -> Iterator[None]:
    """Run an import; raises InvalidDefinition, which names the extra, if the package is missing."""
    try:
        yield
    except ImportError:
        raise InvalidDefinition(f"{who} needs {package}: pip install 'mainstem[{extra}]'") from None


class UnknownPipeline(MainstemError, failure=Failure.NOT_FOUND):
    """Raised if there is no pipeline of that name, or it has never run."""


class UnreadableTable(MainstemError, failure=Failure.INVALID):
    """Raised if a table cannot be queried: several have that name, or its sink cannot be read."""


class PipelineFailed(MainstemError):
    """Raised when an error stopped the run of a table; its uncommitted rows are not visible."""


class StoreUnavailable(MainstemError, failure=Failure.UNAVAILABLE, retriable=True):
    """Raised if the store that a sink writes to does not answer; a later attempt may succeed."""

    def __init__(self, place: str, reason: object) -> None:
        super().__init__(f"no answer from {place}: {reason}")


class RunRefused(MainstemError):
    """Raised instead of starting a run that would give wrong tables."""


class DamagedState(RunRefused):
    """Raised if a file in the state directory cannot be read."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(
            f"{file} is damaged: {reason}; restore it from a backup, or rebuild the tables: "
            "mainstem pipeline run FILE --replay --into NAME, then mainstem pipeline swap FILE NAME"
        )
        self.file = file
