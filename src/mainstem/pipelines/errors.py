"""What a pipeline can refuse: a definition that means nothing, and a run that failed."""

from pathlib import Path

from mainstem.core.errors import MainstemError


class InvalidDefinition(MainstemError):
    """A pipeline file that cannot be run as it is; told before any batch."""


class UnknownPipeline(MainstemError):
    """There is no such pipeline, or nothing of it has ever run."""


class PipelineFailed(MainstemError):
    """A table's run stopped by an error; what was not committed is not visible."""


class RunRefused(MainstemError):
    """The pipeline is in a state in which this run would give wrong tables."""


class DamagedState(RunRefused):
    """A file of a pipeline's state cannot be read."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(
            f"{file} is damaged: {reason}; put it back from a backup, or make the tables anew: "
            "mainstem pipeline run FILE --replay --into NAME, then mainstem pipeline swap FILE NAME"
        )
        self.file = file
