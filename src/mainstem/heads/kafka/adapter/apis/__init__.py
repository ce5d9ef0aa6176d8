"""One module per API, named after it, headed by its versions and behaviour, and self-registering.

Importing this package imports them all, which fills ``SERVED``.
"""

from importlib import import_module
from pkgutil import iter_modules

from mainstem.heads.kafka.adapter.registry import SERVED

__all__ = ["SERVED"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
