"""Maps Kafka Connect to the connectors of this server.

| Kafka Connect | here |
|---|---|
| a connector, its one task 0 | a connector |
| its configuration | its settings; the configuration is stored, too, to be shown as it was given |
| PAUSED, STOPPED | paused |
| FAILED, RESTARTING, UNASSIGNED, RUNNING | its phase: failed, retrying, starting, any other |
| deleting the offsets of a paused connector | forgetting its position: a new snapshot |
| worker, cluster | this server |
"""

from collections.abc import Mapping
from typing import cast

import msgspec

from mainstem.auth import Peer
from mainstem.core.errors import Failure, MainstemError
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.connect.configs import Fault, config_of, settings_of
from mainstem.heads.connect.values import Config
from mainstem.heads.context import HeadContext

Item = dict[str, object]
"""A JSON object."""
_CONFIG = "config"
_STATES = {"paused": "PAUSED", "failed": "FAILED", "starting": "UNASSIGNED"}
_TASK_STATES = _STATES | {"retrying": "RESTARTING"}


class Invalid(OperationFailed):
    """A configuration with faults, as Kafka Connect reports it."""

    def __init__(self, faults: list[Fault]) -> None:
        said = "\n".join(f"{each.name}: {each.why}" for each in faults)
        super().__init__(
            Failure.INVALID,
            "Connector configuration is invalid and contains the following "
            f"{len(faults)} error(s):\n{said}",
        )


class Connectors:
    """The connectors of the server, with the permissions of one peer."""

    def __init__(self, context: HeadContext, peer: Peer) -> None:
        self._context = context
        self._peer = peer
        self._definitions = context.broker.definitions.open("connect")

    def names(self) -> list[str]:
        """Return the names of all connectors."""
        return [str(each["name"]) for each in cast("list[Item]", self._run("connectors"))]

    def info(self, name: str) -> Item:
        """Return a connector with its configuration and its task."""
        return {
            "name": name,
            "config": self.config(name),
            "tasks": [{"connector": name, "task": 0}],
            "type": "source",
        }

    def config(self, name: str) -> Config:
        """Return a connector's configuration: as it was given, or made from its settings."""
        settings = self._settings(name)
        stored = self._definitions.get(_CONFIG, name)
        if stored is not None:
            config = msgspec.json.decode(stored, type=dict[str, str])
            wanted = _plain(settings_of(name, config)[0])
            # The connector may have been removed, and added again with the command line.
            if all(settings.get(each) == value for each, value in wanted.items()):
                return config
        return config_of(settings)

    def create(self, name: str, config: Config) -> None:
        """Add a connector."""
        self._set("connectors/add", name, config)

    def put(self, name: str, config: Config) -> bool:
        """Add a connector, or change its configuration; return whether it is new."""
        is_new = name not in self.names()
        self._set("connectors/add" if is_new else "connectors/alter", name, config)
        return is_new

    def _set(self, operation: str, name: str, config: Config) -> None:
        config = {**config, "name": name}
        settings, faults = settings_of(name, config)
        if faults:
            raise Invalid(faults)
        self._run(operation, settings=settings)
        self._definitions.set(_CONFIG, name, msgspec.json.encode(config)).wait()

    def remove(self, name: str) -> None:
        """Remove a connector, and what it has created in the source database."""
        self._run("connectors/remove", name=name)
        self._definitions.delete(_CONFIG, name).wait()

    def status(self, name: str) -> Item:
        """Return the states of a connector and of its task."""
        worker = str(self._context.addresses["connect"])
        task = self.task_status(name)
        state = _STATES.get(self._phase(name), "RUNNING")
        return {
            "name": name,
            "connector": {"state": state, "worker_id": worker},
            "tasks": [task],
            "type": "source",
        }

    def task_status(self, name: str) -> Item:
        """Return the state of the one task of a connector."""
        found = self._show(name)
        state = _TASK_STATES.get(str(found["phase"]), "RUNNING")
        task: Item = {"id": 0, "state": state}
        task["worker_id"] = str(self._context.addresses["connect"])
        return task | ({"trace": found["error"]} if found["error"] else {})

    def check(self, name: str) -> None:
        """Raise an error if no connector has this name."""
        self._show(name)

    def pause(self, name: str) -> None:
        """Pause a connector."""
        self._run("connectors/pause", name=name)

    def resume(self, name: str) -> None:
        """Resume a connector."""
        self._run("connectors/resume", name=name)

    def restart(self, name: str, *, only_failed: bool = False) -> None:
        """Restart a connector, or only if it has failed."""
        if not only_failed or self._phase(name) == "failed":
            self._run("connectors/restart", name=name)

    def offsets(self, name: str) -> Item:
        """Return the position of a connector in the format of Debezium's offsets."""
        found = self._show(name)
        position = cast("list[int]", found["position"])
        if not position:
            return {"offsets": []}
        offset = {"lsn": position[0]} if len(position) == 1 else {"position": position}
        prefix = self.config(name).get("topic.prefix", name)
        return {"offsets": [{"partition": {"server": prefix}, "offset": offset}]}

    def forget(self, name: str) -> None:
        """Forget the position of a paused connector, so that it begins with a snapshot."""
        if self._phase(name) != "paused":
            raise OperationFailed(
                Failure.INVALID,
                f"the offsets of connector {name} can be deleted only while it is stopped: "
                f"PUT /connectors/{name}/stop",
            )
        self._run("connectors/restart", name=name, snapshot=True)

    def topics(self, name: str) -> list[str]:
        """Return the topics of a connector: named by its prefix, alone or with a dot after it."""
        settings = self._settings(name)
        prefix = str(settings.get("prefix") or name)
        found = self._context.broker.topics(f"{prefix}*")
        return [
            each.name for each in found if each.name == prefix or each.name.startswith(f"{prefix}.")
        ]

    def connect_with(self, config: Config) -> str:
        """Connect to a configuration's database; return the error text, empty if it succeeds."""
        settings, _ = settings_of(config.get("name") or "checked", config)
        try:
            self._run("connectors/check", settings=settings)
        except MainstemError as error:
            if error.failure in (Failure.DENIED, Failure.UNAUTHENTICATED):
                raise
            return str(error)
        return ""

    def _phase(self, name: str) -> str:
        return str(self._show(name)["phase"]).partition(",")[0]

    def _settings(self, name: str) -> Mapping[str, object]:
        return cast(Item, self._show(name)["settings"])

    def _show(self, name: str) -> Item:
        return cast(Item, self._run("connectors/show", name=name))

    def _run(self, operation: str, **given: object) -> object:
        found = self._context.administration.find(operation)
        if found is None:
            raise OperationFailed(Failure.UNAVAILABLE, "the server is still starting")
        return msgspec.to_builtins(found.run(self._peer, given, text=False))


def _plain(settings: Item) -> Item:
    return cast(Item, msgspec.to_builtins({**settings}))
