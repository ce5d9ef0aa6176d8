"""One module per API, named like it; each one registers its API and the supported versions.

Importing this package imports all of them, which fills the table of APIs, ``SERVED``.
"""

from importlib import import_module
from pkgutil import iter_modules

from mainstem.heads.kafka.adapter.registry import SERVED

__all__ = ["SERVED"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
