"""Kafka Connect's REST API, driven by a client library and by the requests of kcctl."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from kafka_connect import KafkaConnect
from requests import HTTPError
from tests.broker.brokers import read_all
from tests.connectors.database import Database, database
from tests.connectors.mariadb.databases import PASSWORD, MariaDb, mariadb
from tests.in_process_server import server
from tests.processes import wait_until

from mainstem.cli.admin_port import ServerAdmin
from mainstem.connectors.settings import ConnectorSettings
from mainstem.core.errors import UnknownTopic
from mainstem.core.event import Event
from mainstem.heads.connect.configs import settings_of
from mainstem.heads.connect.plugins import MARIADB
from mainstem.heads.connect.plugins import POSTGRES as POSTGRES_PLUGIN
from mainstem.node.config import Config
from mainstem.node.connector_operations import (
    ADD,
    REMOVE,
    AddConnector,
    Added,
    Done,
    RemoveConnector,
)
from mainstem.node.server import Running

POSTGRES = POSTGRES_PLUGIN.name
TOPIC = "dbserver1.public.orders"


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with database() as found:
        found.execute("CREATE TABLE orders (id int PRIMARY KEY, v int)")
        found.execute("INSERT INTO orders VALUES (1, 1)")
        yield found


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with server(tmp_path / "data", config=Config().listening(connect="127.0.0.1:0")) as found:
        yield found


@pytest.fixture
def http(running: Running) -> Iterator[httpx.Client]:
    at = f"http://{running.addresses['connect']}"
    with httpx.Client(base_url=at, timeout=30, trust_env=False) as found:
        yield found


def config_for(db: Database, **more: str) -> dict[str, str]:
    return {
        "connector.class": POSTGRES,
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(db.port),
        "database.user": "postgres",
        "database.dbname": "postgres",
        "topic.prefix": "dbserver1",
        "table.include.list": r"public\.orders",
        "plugin.name": "pgoutput",
        "heartbeat.interval.ms": "100",
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def events_in(running: Running) -> list[Event]:
    try:
        return read_all(running.node.broker, TOPIC)
    except UnknownTopic:
        return []


def wait_for(client: KafkaConnect, state: str) -> None:
    wait_until(
        lambda: client.get_connector_status("shop")["tasks"][0]["state"] == state,
        lambda: str(client.get_connector_status("shop")),
    )


def test_a_client_library_drives_a_connector(
    db: Database, running: Running, http: httpx.Client
) -> None:
    client = KafkaConnect(url=str(http.base_url).rstrip("/"))
    config = config_for(db)

    created = client.create_connector({"name": "shop", "config": config})
    assert created == {
        "name": "shop",
        "config": config | {"name": "shop"},
        "tasks": [{"connector": "shop", "task": 0}],
        "type": "source",
    }
    wait_for(client, "RUNNING")
    wait_until(lambda: len(events_in(running)) == 1, "no snapshot")
    assert client.list_connectors() == ["shop"]
    assert client.list_connectors(expand="status")["shop"]["status"]["name"] == "shop"
    assert client.get_connector_config("shop") == config | {"name": "shop"}
    assert client.list_connector_tasks("shop")[0]["id"] == {"connector": "shop", "task": 0}
    # Another connector's, whose prefix begins in the same way.
    running.node.broker.create_topic("dbserver12.public.orders")
    assert client.list_connector_topics("shop") == {"shop": {"topics": ["dbserver1", TOPIC]}}

    client.pause_connector("shop")
    wait_for(client, "PAUSED")
    db.execute("UPDATE orders SET v = v + 1")
    client.resume_connector("shop")
    wait_for(client, "RUNNING")
    wait_until(lambda: len(events_in(running)) == 2, "no change")

    client.update_connector("shop", config | {"tombstones.on.delete": "false"})
    db.execute("DELETE FROM orders", "INSERT INTO orders VALUES (1, 1)")
    wait_until(lambda: len(events_in(running)) == 4, "no change")
    client.restart_connector("shop", include_tasks=True)
    client.restart_connector_task("shop", 0)
    wait_for(client, "RUNNING")
    assert client.get_connector_task_status("shop", 0)["id"] == 0

    with pytest.raises(HTTPError, match="409"):
        client.create_connector({"name": "shop", "config": config})
    client.delete_connector("shop")
    assert client.list_connectors() == []
    assert db.execute("SELECT slot_name FROM pg_replication_slots") == []
    assert client.get_cluster_info()["kafka_cluster_id"]


@pytest.fixture(scope="module")
def maria() -> Iterator[MariaDb]:
    with mariadb() as found:
        found.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY, v INT)", "INSERT INTO orders VALUES (1, 1)"
        )
        yield found


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTEM_SECRET_A", PASSWORD)


def maria_config(port: int, **more: str) -> dict[str, str]:
    return {
        "connector.class": MARIADB.name,
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "app",
        "database.password": "${env:MAINSTEM_SECRET_A}",
        "database.server.id": "184054",
        "database.include.list": "shop",
        "topic.prefix": "dbserver1",
        "heartbeat.interval.ms": "100",
        **{name.replace("__", "."): value for name, value in more.items()},
    }


@pytest.mark.usefixtures("secret")
def test_a_client_library_drives_a_connector_to_mariadb(
    maria: MariaDb, running: Running, http: httpx.Client
) -> None:
    client = KafkaConnect(url=str(http.base_url).rstrip("/"))
    config = maria_config(maria.port)
    topic = "dbserver1.shop.orders"

    def count() -> int:
        return len(read_all(running.node.broker, topic))

    assert client.list_connector_plugins()[1]["class"] == MARIADB.name
    checked = client.validate_connector_config("MariaDbConnector", {"name": "shop", **config})
    assert checked["error_count"] == 0
    created = client.create_connector({"name": "shop", "config": config})
    assert created["config"] == config | {"name": "shop"}
    wait_for(client, "RUNNING")
    wait_until(lambda: topic in client.list_connector_topics("shop")["shop"]["topics"], "none")
    wait_until(lambda: count() == 1, "no snapshot")
    replicas = "SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'"
    wait_until(lambda: maria.execute(replicas) != [], "it does not follow")

    client.pause_connector("shop")
    wait_for(client, "PAUSED")
    maria.execute("UPDATE orders SET v = v + 1")
    client.resume_connector("shop")
    wait_until(lambda: count() == 2, "no change")
    client.update_connector("shop", config | {"tombstones.on.delete": "false"})
    maria.execute("DELETE FROM orders", "INSERT INTO orders VALUES (1, 1)")
    wait_until(lambda: count() == 4, "no change")
    assert client.get_connector_config("shop")["tombstones.on.delete"] == "false"
    client.restart_connector("shop", include_tasks=True)
    wait_for(client, "RUNNING")

    client.delete_connector("shop")
    assert client.list_connectors() == []


@pytest.mark.usefixtures("secret")
def test_configurations_for_mariadb_are_validated_with_the_database(
    maria: MariaDb, http: httpx.Client
) -> None:
    def faults(**more: str) -> dict[str, str]:
        config = maria_config(maria.port, name="shop", **more)
        found = http.put(f"/connector-plugins/{MARIADB.name}/config/validate", json=config).json()
        values = {each["value"]["name"]: each["value"]["errors"] for each in found["configs"]}
        return {name: errors[0] for name, errors in values.items() if errors}

    assert faults() == {}
    assert (
        "there is no table shop.no" in faults(table__include__list="shop.no")["database.hostname"]
    )
    assert "Access denied" in faults(database__user="nobody")["database.hostname"]
    refused = {
        "database__server__id": "0",
        "schema__history__internal__kafka__topic": "history",
        "bigint__unsigned__handling__mode": "precise",
        "slot__name": "x",
        "snapshot__mode": "when_needed",
        "gtid__source__includes": "x",
        "time__precision__mode": "connect",
    }
    assert faults(**refused).keys() == {each.replace("__", ".") for each in refused}
    for wrong, said in (
        ({"database__ssl__mode": "verify-full"}, "database.ssl.mode"),
        ({"table__include__list": "other.t"}, "table.include.list"),
        ({"database__include__list": ""}, "database.include.list"),
    ):
        assert faults(**wrong).keys() == {said}


MARIA_CASES: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {"url": "mariadb://app@127.0.0.1:3307/shop", "tables": ("shop.*",), "server_id": 184054}),
    (
        {"database__include__list": "a,b", "database__exclude__list": "c"},
        {"tables": ("a.*", "b.*"), "exclude": ("c.*",)},
    ),
    ({"table__include__list": r"shop\.orders"}, {"tables": ("shop.orders",)}),
    ({"database__ssl__mode": "trust"}, {"url": "mariadb://app@127.0.0.1:3307/shop?ssl=true"}),
    ({"column__exclude__list": "shop.orders.v"}, {"exclude_columns": ("shop.orders.v",)}),
    (
        {"connector__class": "io.debezium.connector.mysql.MySqlConnector"},
        {"url": "mysql://app@127.0.0.1:3307/shop"},
    ),
]


@pytest.mark.parametrize(("given", "expected"), MARIA_CASES)
def test_names_of_debezium_for_mariadb_are_settings(
    given: dict[str, str], expected: dict[str, Any]
) -> None:
    settings, faults = settings_of("shop", maria_config(3307, **given))

    assert faults == []
    assert {name: settings[name] for name in expected} == expected


def test_requests_of_kcctl(db: Database, http: httpx.Client) -> None:
    config = config_for(db)
    assert http.get("/connector-plugins").json()[0]["class"] == POSTGRES
    assert http.put("/connectors/shop/config", json=config).status_code == 201
    assert http.put("/connectors/shop/config", json=config).status_code == 200
    patch = {"tombstones.on.delete": False, "heartbeat.interval.ms": None}
    patched = http.patch("/connectors/shop/config", json=patch).json()["config"]
    assert patched["tombstones.on.delete"] == "false"
    assert "heartbeat.interval.ms" not in patched
    both = http.get("/connectors?expand=info&expand=status").json()["shop"]
    assert {"info", "status"} & both.keys()
    wait_until(lambda: http.get("/connectors/shop/offsets").json()["offsets"] != [], "no offset")
    (offset,) = http.get("/connectors/shop/offsets").json()["offsets"]
    assert offset["partition"] == {"server": "dbserver1"}
    assert offset["offset"]["lsn"] > 0
    assert http.delete("/connectors/shop/offsets").status_code == 400
    assert http.patch("/connectors/shop/offsets", json={}).status_code == 501
    assert http.put("/connectors/shop/stop").status_code == 204
    wait_until(lambda: state_of(http) == "PAUSED", "not stopped")
    assert http.delete("/connectors/shop/offsets").status_code == 200
    assert http.get("/connectors/shop/offsets").json() == {"offsets": []}
    assert http.get("/connectors/shop/tasks-config").json()["shop-0"]["name"] == "shop"
    assert http.get("/connectors/shop/tasks/1/status").status_code == 404
    assert http.delete("/connectors/shop").status_code == 204
    for path in ("/connectors/shop", "/connectors/shop/status", "/admin/loggers", "/x"):
        answer = http.get(path)
        assert (answer.status_code, answer.json()["error_code"]) == (404, 404)


def state_of(http: httpx.Client) -> str:
    return str(http.get("/connectors/shop/status").json()["connector"]["state"])


def test_what_is_not_honoured_is_refused_by_its_name(db: Database, http: httpx.Client) -> None:
    wrong = {
        "connector.class": "io.debezium.connector.oracle.OracleConnector",
        "database.password": "hunter2",
        "plugin.name": "decoderbufs",
        "snapshot.mode": "always",
        "table.include.list": "public.(a|b)",
        "transforms": "x",
        "transforms.x.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "signal.data.collection": "public.signals",
        "topic.prefix": "",
    }
    answer = http.put("/connectors/shop/config", json=config_for(db) | wrong)

    assert answer.status_code == 400
    message = answer.json()["message"]
    for name in (*(wrong.keys() - {"transforms"}),):
        assert f"\n{name}: " in message, name
    assert "hunter2" not in message
    assert "${env:MAINSTEM_SECRET_NAME}" in message
    assert http.get("/connectors").json() == []


def test_configurations_are_validated_with_the_database(db: Database, http: httpx.Client) -> None:
    at = f"/connector-plugins/{POSTGRES}/config/validate"

    def faults(config: dict[str, str]) -> dict[str, list[str]]:
        found = http.put(at, json=config).json()
        values = {each["value"]["name"]: each["value"]["errors"] for each in found["configs"]}
        faulty = {name: errors for name, errors in values.items() if errors}
        assert found["error_count"] == sum(map(len, faulty.values()))
        return faulty

    good = config_for(db, name="shop")
    assert faults(good) == {}
    assert "no table" in faults(good | {"table.include.list": "public.no"})["database.hostname"][0]
    assert faults(good | {"errors.tolerance": "all"}).keys() == {"errors.tolerance"}
    assert "name" in faults(config_for(db))
    assert http.put("/connector-plugins/other/config/validate", json=good).status_code == 404
    assert http.get("/connectors").json() == []
    assert db.execute("SELECT pubname FROM pg_publication") == []


def test_a_connector_that_was_added_otherwise_has_a_configuration(
    db: Database, running: Running, http: httpx.Client
) -> None:
    assert http.put("/connectors/shop/config", json=config_for(db)).status_code == 201
    admin = ServerAdmin(str(running.addresses["kafka"]))
    admin.change(REMOVE, RemoveConnector("shop"), Done)
    settings = ConnectorSettings(name="shop", url=db.url, tables=("public.orders",))
    admin.change(ADD, AddConnector(settings), Added)

    config = http.get("/connectors/shop/config").json()

    assert config["topic.prefix"] == "shop"
    assert config["table.include.list"] == "public.orders"
    assert "heartbeat.interval.ms" not in config
    assert http.delete("/connectors/shop").status_code == 204


def test_a_connector_that_has_stopped_is_failed_and_says_why(
    db: Database, http: httpx.Client
) -> None:
    http.put("/connectors/shop/config", json=config_for(db))
    wait_until(lambda: http.get("/connectors/shop/offsets").json()["offsets"] != [], "no offset")
    http.put("/connectors/shop/pause")
    db.execute("SELECT pg_drop_replication_slot('mainstem_shop')")
    http.put("/connectors/shop/resume")

    wait_until(lambda: state_of(http) == "FAILED", "not failed")

    (task,) = http.get("/connectors/shop/status").json()["tasks"]
    assert task["state"] == "FAILED"
    assert "mainstem_shop is gone" in task["trace"]
    restarted = http.post("/connectors/shop/restart?includeTasks=true&onlyFailed=true")
    assert (restarted.status_code, restarted.json()["name"]) == (202, "shop")
    assert http.delete("/connectors/shop").status_code == 204


HOSTILE: dict[str, dict[str, str]] = {
    "connector.class": {"connector.class": "os.system"},
    "database.password": {"database.password": "${file:/etc/passwd}"},
    "connectors.secrets_dir": {"database.password": "${dir:/etc:..}"},
    "MAINSTEM_SECRET_": {"database.password": "${env:HOME}"},
    "table.include.list": {"table.include.list": 'public.a"; DROP TABLE orders; --'},
    "database.port": {"database.port": "5432/x?passfile=/etc/passwd"},
    "topic.prefix|prefix ": {"topic.prefix": "../x"},
    "transforms.t.type": {"transforms": "t", "transforms.t.type": "java.lang.Runtime"},
}


@pytest.mark.parametrize(("why", "given"), HOSTILE.items())
def test_hostile_configurations_are_refused(
    db: Database, http: httpx.Client, why: str, given: dict[str, str]
) -> None:
    answer = http.put("/connectors/shop/config", json=config_for(db) | given)

    assert answer.status_code == 400
    assert re.search(why, answer.json()["message"])
    assert http.get("/connectors").json() == []
    assert db.execute("SELECT count(*) FROM orders") != []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 100_000, 400),
        (b'{"name": 1}', 400),
        (b'{"name": "../x", "config": {}}', 400),
        (b'{"name": "x", "config": {"a": {"b": 1}}}', 400),
        (b'{"name": "x", "config": {}, "initial_state": "PAUSED"}', 501),
        (b'{"name": "x", "config": {"a": "' + b"x" * 2_000_000 + b'"}}', 413),
    ],
)
def test_bodies_that_are_no_configuration_are_refused(
    http: httpx.Client, body: bytes, status: int
) -> None:
    answer = http.post("/connectors", content=body)

    assert answer.status_code == status
    assert answer.json()["error_code" if status != 413 else "status"] == status


CASES: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {"prefix": "dbserver1", "format": "json"}),
    ({"value.converter.schemas.enable": "true"}, {}),
    ({"database.password": "${env:MAINSTEM_SECRET_A}"}, {"password_env": "MAINSTEM_SECRET_A"}),
    ({"database.password": "${dir:/run/secrets:shop}"}, {"password_file": "shop"}),
    ({"schema.include.list": "a,b", "table.include.list": ""}, {}),
    ({"table.include.list": r"public\.a, public\..*"}, {"tables": ("public.a", "public.*")}),
    ({"column.mask.with.8.chars": "public.t.a"}, {"mask_columns": ("public.t.a",)}),
    ({"skipped.operations": "none"}, {"truncates": True}),
    (
        {"transforms": "u", "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState"},
        {"format": "flat"},
    ),
    (
        {
            "transforms": "o",
            "transforms.o.type": "io.debezium.transforms.outbox.EventRouter",
            "transforms.o.table.fields.additional.placement": "type:header:eventType",
            "transforms.o.route.topic.replacement": "${routedByValue}.events",
        },
        {
            "outbox": ("public.orders",),
            "outbox_topic": "${routedByValue}.events",
            "outbox_headers": ("type:eventType",),
        },
    ),
]


@pytest.mark.parametrize(("given", "expected"), CASES)
def test_names_of_debezium_are_settings(
    db: Database, given: dict[str, str], expected: dict[str, Any]
) -> None:
    settings, faults = settings_of("shop", config_for(db) | given)

    if not expected:
        assert [each.name for each in faults] != []
        return
    assert faults == []
    assert {name: settings[name] for name in expected} == expected
