"""What a pipeline can refuse: a definition that means nothing, and a run that failed."""

from mainstem.core.errors import MainstemError


class InvalidDefinition(MainstemError):
    """A pipeline file that cannot be run as it is; told before any batch."""


class UnknownPipeline(MainstemError):
    """There is no such pipeline, or nothing of it has ever run."""


class PipelineFailed(MainstemError):
    """A table's run stopped by an error; what was not committed is not visible."""


class RunRefused(MainstemError):
    """The pipeline is in a state in which this run would give wrong tables."""
