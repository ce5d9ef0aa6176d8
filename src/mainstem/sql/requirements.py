"""Checks the packages of the extra ``sql``."""

from importlib.util import find_spec

from mainstem.sql.errors import MissingSql

_PACKAGES = ("duckdb", "numpy", "pyarrow")


def check_installed() -> None:
    """Raise MissingSql if a package is missing."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingSql(
            f"queries need packages that are not installed ({', '.join(missing)}): "
            "pip install 'mainstem[sql]'"
        )
