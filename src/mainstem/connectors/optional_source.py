"""A source whose package is optional (an extra): imported when a connector needs it."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

import msgspec

from mainstem.connectors.errors import MissingExtra
from mainstem.connectors.port import Source
from mainstem.connectors.settings import ConnectorSettings


class OptionalSource(msgspec.Struct, frozen=True):
    """Where the code of a source is, and the package that it needs."""

    package: str
    missing: str
    """What to say if the package is not installed."""
    connections: str
    """The module whose ``check_url`` checks the address of a database."""
    source: str
    """The source, ``module:class``."""

    def check(self, settings: ConnectorSettings) -> None:
        """Check the URL of a connector; raises MissingExtra."""
        self._require()
        import_module(self.connections).check_url(settings.url)

    def open(self, settings: ConnectorSettings, password: Callable[[], str | None]) -> Source:
        """Return the source of a connector; raises MissingExtra."""
        self._require()
        module, _, name = self.source.partition(":")
        found: Source = getattr(import_module(module), name)(settings, password)
        return found

    def _require(self) -> None:
        if find_spec(self.package) is None:
            raise MissingExtra(self.missing)
