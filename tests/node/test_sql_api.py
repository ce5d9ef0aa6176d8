"""Queries on the admin port of a real server."""

import io
import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import httpx
import msgspec
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.in_process_server import server
from tests.processes import MARK, marked, wait_until

from mainstem.auth import Action, Auth, Principal, Resource, ResourceKind, deny_all
from mainstem.core.event import Event
from mainstem.node.config import Config
from mainstem.node.server import Running
from mainstem.pipelines.sinks.delta import DeltaSink
from mainstem.pipelines.sinks.redis import RedisSink
from mainstem.pipelines.state.table_state import StateDirectory, TableStatus
from mainstem.sql.limits import SqlLimits

ENDLESS = "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with limited(max_rows=100, max_seconds=20, max_result_bytes=10_000, max_at_once=1) as found:
        for number in range(10):
            publish(found, {"n": number, "user": f"u{number % 3}"})
        yield found


def limited(auth: Auth | None = None, *, pipelines: str = "none", **limits: int) -> Any:
    config = msgspec.structs.replace(Config(), sql=SqlLimits(**limits), pipelines=pipelines)
    return server(None, config=config, auth=auth)


def publish(running: Running, value: object, topic: str = "orders") -> None:
    topics = f"http://{running.admin}/api/v1/topics"
    if httpx.get(f"{topics}/{topic}").status_code == 404:
        assert httpx.post(topics, json={"topic": topic}).status_code == 200
    running.node.broker.publish(topic, [Event(json.dumps(value).encode())], 0).durable.wait()


def ask(running: Running, query: str, **more: object) -> httpx.Response:
    address = f"http://{running.admin}/api/v1/sql"
    return httpx.post(address, json={"query": query, **more}, timeout=60)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["detail"]


def test_a_query_is_answered_and_its_snapshot_answers_the_same_again(running: Running) -> None:
    query = "select user, sum(n) as total, max(_offset) as last from orders group by 1 order by 1"
    first = ask(running, query)

    publish(running, {"n": 100, "user": "u0"})
    again = ask(running, query, as_of=first.json()["snapshot"])

    assert first.status_code == 200
    assert [each["name"] for each in first.json()["columns"]] == ["user", "total", "last"]
    assert first.json()["rows"] == [["u0", 18, 9], ["u1", 12, 7], ["u2", 15, 8]]
    assert again.json() == first.json()
    assert ask(running, query).json()["rows"][0] == ["u0", 118, 10]


@pytest.mark.parametrize(
    ("asked", "status", "why"),
    [
        ({"query": "select * from nothing"}, 404, "no topic 'nothing'"),
        ({"query": "selec"}, 400, "syntax error"),
        ({"query": "drop table orders"}, 400, "only SELECT"),
        ({"query": "select * from read_csv('/etc/passwd')"}, 400, "read_csv is not available"),
        ({"query": "select nope from orders"}, 400, "orders has n, user, _key"),
        ({"query": "select 1", "rows": 101}, 400, "rows must be"),
        ({"query": "select 1", "seconds": 0}, 400, "seconds must be"),
        ({"query": "select 1", "as_of": "x"}, 400, "no snapshot"),
        ({"query": "select 1", "as_off": "x"}, 400, "as_off"),
        ({}, 400, "query"),
        ({"query": "from range(101)"}, 503, "more than 100 rows"),
        ({"query": "from range(6)", "rows": 5}, 503, "more than 5 rows"),
        ({"query": "select repeat('x', 10000)"}, 503, "larger than 10,000 bytes"),
        ({"query": ENDLESS, "seconds": 2}, 503, "not done within 2 s"),
        ({"query": "select list(range) from range(1000000000)"}, 503, "256 MiB of memory"),
    ],
)
def test_what_is_refused_says_why(
    running: Running, asked: dict[str, object], status: int, why: str
) -> None:
    answer = httpx.post(f"http://{running.admin}/api/v1/sql", json=asked, timeout=60)

    found, detail = refusal(answer)
    assert (found, why in detail) == (status, True), detail


def test_more_queries_at_a_time_than_allowed_are_refused(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"sql-{os.getpid()}"
    monkeypatch.setenv(MARK, mark)
    slow = threading.Thread(target=ask, args=(running, ENDLESS), kwargs={"seconds": 3})
    slow.start()
    wait_until(lambda: marked_processes(mark), "the first one does not run")

    assert refusal(ask(running, "select 1"))[0] == 503

    slow.join()
    assert ask(running, "select 1").status_code == 200


def test_a_query_needs_permission_to_read_its_topics() -> None:
    def only_orders(principal: Principal, action: Action, resource: Resource) -> None:
        reads = action is Action.READ and resource.kind is ResourceKind.TOPIC
        if reads and resource.name != "orders":
            deny_all(principal, action, resource)

    with limited(Auth(authorize=only_orders)) as running:
        publish(running, {"n": 1})
        publish(running, {"n": 1}, "secrets")

        assert ask(running, "select n from orders").json()["rows"] == [[1]]
        status, why = refusal(ask(running, "select o.n from orders o, secrets"))

    assert (status, "secrets" in why) == (403, True)


def test_a_stopping_server_ends_its_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"sql-{os.getpid()}"
    monkeypatch.setenv(MARK, mark)

    def ask_in_vain(running: Running) -> None:
        with suppress(httpx.TransportError):
            assert refusal(ask(running, ENDLESS)) == (503, "the server is stopping")

    with limited(max_seconds=600) as running:
        asking = threading.Thread(target=ask_in_vain, args=(running,))
        asking.start()
        wait_until(lambda: marked_processes(mark), "it does not run")
    asking.join()

    wait_until(lambda: not marked_processes(mark), "its processes are left")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The state of a pipeline ``shop`` that keeps the table ``users`` from the topic ``people``."""
    rows = pa.table({"user": ["u0", "u1"], "age": [30, 40]})
    write_deltalake(str(tmp_path / "delta"), rows)
    state = tmp_path / "state"
    for name, sink in (
        ("users", DeltaSink(str(tmp_path / "delta")).place),
        ("cache", RedisSink("redis://127.0.0.1/0", "users").place),
    ):
        status = TableStatus("stopped", sink=sink, offsets={"people": {"0": 2}})
        StateDirectory(state / "shop" / name).save_status(status)
    return state


def test_tables_of_pipelines_are_joined_with_topics(kept: Path) -> None:
    with limited(pipelines=str(kept)) as running:
        publish(running, {"n": 1, "user": "u1"})

        alone = ask(running, "select max(age) as oldest from shop.users")
        joined = ask(running, "select n, age from orders join users using (user)")

        assert alone.json()["rows"] == [[40]]
        assert (alone.json()["snapshot"], alone.json()["notices"]) == ("", [])
        assert joined.json()["rows"] == [[1, 40]]
        assert joined.json()["notices"] == ["users: as of now, and not in the snapshot"]
        assert "cannot be read from here" in refusal(ask(running, "from cache"))[1]
        assert refusal(ask(running, "from shop.nothing"))[0] == 404


@pytest.mark.parametrize("denied", ["people", "the cluster"])
def test_a_table_of_a_pipeline_needs_permission_for_its_topics(kept: Path, denied: str) -> None:
    def but_one(principal: Principal, action: Action, resource: Resource) -> None:
        is_cluster = resource.kind is ResourceKind.CLUSTER
        if resource.name == denied or (is_cluster and denied == "the cluster"):
            deny_all(principal, action, resource)

    with limited(Auth(authorize=but_one), pipelines=str(kept)) as running:
        assert ask(running, "select 1").status_code == 200
        assert refusal(ask(running, "select * from users"))[0] == 403


def test_a_topic_has_the_columns_of_its_avro_schema(running: Running) -> None:
    schema = {
        "type": "record",
        "name": "Payment",
        "fields": [{"name": "id", "type": "long"}, {"name": "user", "type": "string"}],
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, {"id": 7, "user": "ann"})
    running.node.broker.create_topic("payments")
    events = [Event(out.getvalue()), Event(b"\0\0\0\0\1" + out.getvalue()), Event(b"no avro")]
    running.node.broker.publish("payments", events, 0).durable.wait()

    found = ask(running, "select id, user from payments", schemas={"payments": schema})

    assert found.json()["rows"] == [[7, "ann"], [7, "ann"], [None, None]]
    assert "not Avro of its schema" in found.json()["notices"][-1]


@pytest.mark.parametrize(
    "schema",
    [
        "nothing",
        {},
        7,
        None,
        {"type": "record"},
        {"type": "record", "name": "a", "fields": [{"name": "b", "type": "missing"}]},
    ],
)
def test_what_is_no_avro_schema_is_refused(running: Running, schema: object) -> None:
    publish(running, {"n": 1}, "readings")

    status, why = refusal(ask(running, "from readings", schemas={"readings": schema}))

    assert (status, "the schema of readings is no Avro schema" in why) == (400, True), why


def marked_processes(mark: str) -> list[str]:
    return [
        command for command in marked(mark).values() if "mainstem.node.api.sql_process" in command
    ]
