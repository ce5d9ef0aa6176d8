"""The requests of Kafka Connect's REST API: each route, and the function that answers it."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from mainstem import __version__
from mainstem.core.errors import Failure
from mainstem.heads.admin_operations import OperationFailed
from mainstem.heads.connect.adapter import Connectors
from mainstem.heads.connect.configs import Fault, settings_of
from mainstem.heads.connect.plugins import CLASS, PASSWORD, PLUGINS, Plugin, plugin_of
from mainstem.heads.connect.values import Config

_HERE = "database.hostname"


Plain = str | int | float | bool
"""A value of a configuration in JSON."""
T = TypeVar("T")


class _NewConnector(msgspec.Struct, frozen=True):
    name: str
    config: dict[str, Plain]
    initial_state: str | None = None


class Asked(msgspec.Struct, frozen=True):
    """A request, and the connectors with the permissions of its sender."""

    connectors: Connectors
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes

    @property
    def name(self) -> str:
        """The connector in the path."""
        return self.path["name"]

    def flag(self, name: str) -> bool:
        """Tell whether a query parameter is true."""
        return self.query.get(name, "").lower() == "true"

    def config(self) -> Config:
        """Decode the body as a configuration."""
        return _texts(self._read(dict[str, Plain]))

    def changes(self) -> Mapping[str, str | None]:
        """Decode the body as changes of a configuration; None removes a property."""
        found = self._read(dict[str, Plain | None])
        gone: dict[str, str | None] = {name: None for name, each in found.items() if each is None}
        kept = {name: each for name, each in found.items() if each is not None}
        return gone | dict(_texts(kept))

    def new_connector(self) -> tuple[str, Config]:
        """Decode the body as the name and configuration of a new connector."""
        found = self._read(_NewConnector)
        if found.initial_state not in (None, "RUNNING"):
            raise OperationFailed(
                Failure.UNSUPPORTED, "initial_state is not supported: connectors start at once"
            )
        return found.name, _texts(found.config)

    def _read(self, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(self.body or b"{}", type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            why = f"the body is not what Kafka Connect expects here: {error}"
            raise OperationFailed(Failure.INVALID, why) from None


class Reply(msgspec.Struct, frozen=True):
    """An answer: its body, to be encoded as JSON, and its HTTP status."""

    body: object = None
    status: int = 200


Answer = Callable[[Asked], Reply]


def _texts(found: Mapping[str, Plain]) -> Config:
    # Kafka Connect converts JSON numbers and booleans in this way.
    return {
        name: str(each).lower() if isinstance(each, bool) else str(each)
        for name, each in found.items()
    }


def _server(_: Asked) -> Reply:
    return Reply({"version": __version__, "commit": "mainstem", "kafka_cluster_id": "mainstem"})


def _health(_: Asked) -> Reply:
    return Reply({"status": "healthy", "message": "The server is up."})


def _list(asked: Asked) -> Reply:
    expand = asked.query.get("expand", "")
    names = asked.connectors.names()
    if not expand:
        return Reply(names)
    parts = {"info": asked.connectors.info, "status": asked.connectors.status}
    chosen = {each: part for each, part in parts.items() if each in expand}
    return Reply({name: {each: part(name) for each, part in chosen.items()} for name in names})


def _create(asked: Asked) -> Reply:
    name, config = asked.new_connector()
    asked.connectors.create(name, config)
    return Reply(asked.connectors.info(name), 201)


def _put(asked: Asked) -> Reply:
    is_new = asked.connectors.put(asked.name, asked.config())
    return Reply(asked.connectors.info(asked.name), 201 if is_new else 200)


def _patch(asked: Asked) -> Reply:
    changed = {**asked.connectors.config(asked.name), **asked.changes()}
    config = {name: value for name, value in changed.items() if value is not None}
    asked.connectors.put(asked.name, config)
    return Reply(asked.connectors.info(asked.name))


def _changes(change: Callable[[Connectors, str], object], status: int) -> Answer:
    """Return the answer, without a body, to a request that changes a connector."""

    def answer(asked: Asked) -> Reply:
        change(asked.connectors, asked.name)
        return Reply(status=status)

    return answer


def _restart(asked: Asked) -> Reply:
    asked.connectors.restart(asked.name, only_failed=asked.flag("onlyFailed"))
    if asked.flag("includeTasks"):
        return Reply(asked.connectors.status(asked.name), 202)
    return Reply(status=204)


def _restart_task(asked: Asked) -> Reply:
    _check_task(asked)
    return _restart(asked)


def _tasks(asked: Asked) -> Reply:
    config = asked.connectors.config(asked.name)
    return Reply([{"id": {"connector": asked.name, "task": 0}, "config": config}])


def _tasks_config(asked: Asked) -> Reply:
    return Reply({f"{asked.name}-0": asked.connectors.config(asked.name)})


def _task_status(asked: Asked) -> Reply:
    _check_task(asked)
    return Reply(asked.connectors.task_status(asked.name))


def _check_task(asked: Asked) -> None:
    if asked.path["task"] != "0":
        why = f"connector {asked.name} has only the task 0"
        raise OperationFailed(Failure.NOT_FOUND, why)


def _topics(asked: Asked) -> Reply:
    return Reply({asked.name: {"topics": asked.connectors.topics(asked.name)}})


def _reset_topics(asked: Asked) -> Reply:
    asked.connectors.check(asked.name)
    return Reply()


def _forget(asked: Asked) -> Reply:
    asked.connectors.forget(asked.name)
    return Reply({"message": "The offsets for this connector have been reset successfully"})


def _alter_offsets(_: Asked) -> Reply:
    why = "offsets cannot be altered, as changes would be missing or there twice; delete them"
    raise OperationFailed(Failure.UNSUPPORTED, why)


def _plugins(_: Asked) -> Reply:
    return Reply(
        [{"class": each.name, "type": "source", "version": __version__} for each in PLUGINS]
    )


def _plugin_config(asked: Asked) -> Reply:
    plugin = _plugin(asked)
    return Reply([_definition(plugin, name) for name in plugin.known])


def _validate(asked: Asked) -> Reply:
    plugin = _plugin(asked)
    config = {CLASS: plugin.name, **asked.config()}
    name = config.get("name", "")
    _, faults = settings_of(name, config)
    if not name:
        faults.insert(0, Fault("name", "it must have a value"))
    if not faults and (why := asked.connectors.connect_with(config)):
        faults.append(Fault(_HERE, why))
    told = [*plugin.known, *sorted({each.name for each in faults} - set(plugin.known))]
    return Reply(
        {
            "name": plugin.name,
            "error_count": len(faults),
            "groups": ["mainstem"],
            "configs": [
                {
                    "definition": _definition(plugin, each),
                    "value": {
                        "name": each,
                        "value": config.get(each),
                        "recommended_values": [],
                        "errors": [fault.why for fault in faults if fault.name == each],
                        "visible": True,
                    },
                }
                for each in told
            ],
        }
    )


def _plugin(asked: Asked) -> Plugin:
    found = plugin_of(asked.path["plugin"])
    if found is None:
        served = ", ".join(each.name for each in PLUGINS)
        why = f"there is no plugin {asked.path['plugin']!r:.200}; there are {served}"
        raise OperationFailed(Failure.NOT_FOUND, why)
    return found


def _definition(plugin: Plugin, name: str) -> Mapping[str, object]:
    is_required = name in plugin.required
    return {
        "name": name,
        "type": "PASSWORD" if name == PASSWORD else "STRING",
        "required": is_required,
        "default_value": None,
        "importance": "HIGH" if is_required else "MEDIUM",
        "documentation": "As in Debezium; see docs/guides/cdc.md.",
        "group": "mainstem",
        "width": "MEDIUM",
        "display_name": name,
        "dependents": [],
        "order": plugin.known.index(name) if name in plugin.known else -1,
    }


_ONE = "/connectors/{name}"
_PLUGIN = "/connector-plugins/{plugin}/config"
ROUTES: Mapping[tuple[str, str], Answer] = {
    ("GET", "/"): _server,
    ("GET", "/health"): _health,
    ("GET", "/connectors"): _list,
    ("POST", "/connectors"): _create,
    ("GET", _ONE): lambda asked: Reply(asked.connectors.info(asked.name)),
    ("DELETE", _ONE): _changes(Connectors.remove, 204),
    ("GET", f"{_ONE}/config"): lambda asked: Reply(asked.connectors.config(asked.name)),
    ("PUT", f"{_ONE}/config"): _put,
    ("PATCH", f"{_ONE}/config"): _patch,
    ("GET", f"{_ONE}/status"): lambda asked: Reply(asked.connectors.status(asked.name)),
    ("PUT", f"{_ONE}/pause"): _changes(Connectors.pause, 202),
    ("PUT", f"{_ONE}/stop"): _changes(Connectors.pause, 204),
    ("PUT", f"{_ONE}/resume"): _changes(Connectors.resume, 202),
    ("POST", f"{_ONE}/restart"): _restart,
    ("GET", f"{_ONE}/tasks"): _tasks,
    ("GET", f"{_ONE}/tasks-config"): _tasks_config,
    ("GET", f"{_ONE}/tasks/{{task}}/status"): _task_status,
    ("POST", f"{_ONE}/tasks/{{task}}/restart"): _restart_task,
    ("GET", f"{_ONE}/topics"): _topics,
    ("PUT", f"{_ONE}/topics/reset"): _reset_topics,
    ("GET", f"{_ONE}/offsets"): lambda asked: Reply(asked.connectors.offsets(asked.name)),
    ("DELETE", f"{_ONE}/offsets"): _forget,
    ("PATCH", f"{_ONE}/offsets"): _alter_offsets,
    ("GET", "/connector-plugins"): _plugins,
    ("GET", _PLUGIN): _plugin_config,
    ("PUT", f"{_PLUGIN}/validate"): _validate,
}
"""The function that answers each request, by method and path."""
