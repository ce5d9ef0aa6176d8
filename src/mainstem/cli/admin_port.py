"""Calls the admin port of the server that ``--at`` chooses, for operations only a server has."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from mainstem.cli.connection import is_address, nothing_at, target_of
from mainstem.cli.exit_codes import NotFound, Refused
from mainstem.client.connected.admin_api import NoSuchPage, NotThere, change_at, read_at
from mainstem.heads.admin_operations import OperationFailed
from mainstem.node.data_directory import holder_of
from mainstem.remote.admin import Admin
from mainstem.remote.admin_address import AdminPort, admin_port
from mainstem.remote.cluster import Cluster

T = TypeVar("T")
_TIMEOUT_S = 5.0
AMQP = "mainstem serve --amqp 127.0.0.1:5672"
WEBHOOKS = "mainstem serve --webhooks 127.0.0.1:8090"


class ServerAdmin:
    """Calls operations of a server's admin port; raises errors with an exit code."""

    def __init__(self, at: str | None, *, needs: str = AMQP, timeout_s: float = _TIMEOUT_S) -> None:
        """``needs``: the command that starts a server with these operations, for error messages."""
        self._needs, self._timeout_s = needs, timeout_s
        self._address = _address_of(target_of(at), needs)
        self._port = _port_of(self._address)

    def read(self, operation: str, fields: Mapping[str, str], kind: type[T]) -> T:
        """Call an operation that changes nothing; return its result as ``kind``."""
        try:
            return read_at(self._port, self._timeout_s, operation, fields, kind)
        except (NotThere, OperationFailed) as error:
            raise self._refused(error) from None

    def change(self, operation: str, arguments: msgspec.Struct, kind: type[T]) -> T:
        """Call an operation that changes something; return its result as ``kind``."""
        try:
            return change_at(self._port, self._timeout_s, operation, arguments, kind)
        except (NotThere, OperationFailed) as error:
            raise self._refused(error) from None

    def _refused(self, error: NotThere | OperationFailed) -> Exception:
        if isinstance(error, NoSuchPage):
            return Refused(
                f"the server at {self._address} cannot do this, or is an older one: start "
                f"{self._needs}"
            )
        if isinstance(error, NotThere):
            return NotFound(str(error))
        return error


def _address_of(target: str, needs: str) -> str:
    """Return ``target`` if it is an address, else that of the directory's server."""
    if is_address(target):
        return target
    if not Path(target).is_dir():
        raise NotFound(nothing_at(target))
    holder = holder_of(Path(target))
    if holder is None or holder.listens is None:
        raise Refused(f"no server runs on {target}, and this needs one: start {needs}")
    return holder.listens


def _port_of(address: str) -> AdminPort:
    cluster = Cluster(address, timeout_s=_TIMEOUT_S, settings={})
    cluster.check_reachable()
    administration = Admin(cluster)
    try:
        return admin_port(administration)
    finally:
        administration.close()
