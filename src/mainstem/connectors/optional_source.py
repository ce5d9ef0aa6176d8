"""A kind of source that needs an optional package: imported when a connector uses it."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

import msgspec

from mainstem.connectors.errors import MissingExtra
from mainstem.connectors.port import Source
from mainstem.connectors.settings import ConnectorSettings


class OptionalSource(msgspec.Struct, frozen=True):
    """The module and class of a source, and the extra to install for it."""

    package: str
    missing: str
    """What to say if the package is not installed."""
    connections: str
    """The module whose ``check_url`` checks the address of a database."""
    source: str
    """The source, ``module:class``."""

    def check(self, settings: ConnectorSettings) -> None:
        """Check a connector's URL; raises InvalidSetting, or MissingExtra."""
        self._require()
        import_module(self.connections).check_url(settings.url)

    def open(self, settings: ConnectorSettings, password: Callable[[], str | None]) -> Source:
        """Return a connector's source, which is not connected yet; raises MissingExtra."""
        self._require()
        module, _, name = self.source.partition(":")
        found: Source = getattr(import_module(module), name)(settings, password)
        return found

    def _require(self) -> None:
        if find_spec(self.package) is None:
            raise MissingExtra(self.missing)
