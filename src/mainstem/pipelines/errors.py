"""Errors of pipelines: invalid definitions, refused and failed runs, damaged state."""

from pathlib import Path

from mainstem.core.errors import MainstemError


class InvalidDefinition(MainstemError):
    """A pipeline file that cannot be run as it is; raised before any batch."""


class UnknownPipeline(MainstemError):
    """There is no such pipeline, or it has never run."""


class PipelineFailed(MainstemError):
    """The run of a table was stopped by an error; uncommitted rows are not visible."""


class RunRefused(MainstemError):
    """A run that would give wrong tables, so it was not started."""


class DamagedState(RunRefused):
    """A file in the state directory cannot be read."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(
            f"{file} is damaged: {reason}; restore it from a backup, or rebuild the tables: "
            "mainstem pipeline run FILE --replay --into NAME, then mainstem pipeline swap FILE NAME"
        )
        self.file = file
