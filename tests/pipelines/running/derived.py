"""What a pipeline derives from a database, and all that can be killed on the way to it.

How this works: a server in a process of its own captures a database that ``followed`` writes to; a
pipeline keeps a mirror, a search index, a cache and a history of it. Every sink is real. What they
hold in the end is compared with the database itself.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from redis import Redis
from tests.connectors.database import Database, database
from tests.connectors.killed_servers import events_of, has_reached
from tests.faults.killable_server import PATIENCE_S, QUICK, Mortal
from tests.pipelines.redis_server import RedisServer, killable_redis
from tests.pipelines.running.followed import Followed, history_flaws
from tests.processes import output_of, wait_until

from mainstem import pipelines as p
from mainstem.pipelines.sinks.port import Sink

Rows = list[dict[str, Any]]
_SPARK_S = 240
TOPIC = {"lake": "a", "found": "a", "cached": "a", "mirror": "a", "history": "b"}
_FILE = """
    from mainstem import pipelines as p

    COLUMNS = "id int, v int, note string, big string"
    A = p.changes("shop.{schema}.a", schema=COLUMNS)
    B = p.changes("shop.{schema}.b", schema=COLUMNS)
    lake = p.apply_changes(A, key="id", sink=p.delta("{at}/lake"))
    found = p.apply_changes(A, key="id", sink=p.search("{at}/index", text="note"))
    cached = p.apply_changes(A, key="id", sink=p.redis("{redis}", "a"))
    mirror = p.apply_changes(A, key="id", sink=p.postgres("{mirror}", "a"))
    history = p.apply_changes(B, key="id", sink=p.delta("{at}/history"), scd=2)
"""


class Derived:
    """The server, the sinks and the pipeline file; the database is the caller's."""

    def __init__(
        self, followed: Followed, server: Mortal, redis: RedisServer, mirror: Database, at: Path
    ) -> None:
        self._followed = followed
        self.server = server
        self._redis, self._mirror = redis, mirror
        self.file = at / "derived.py"
        given = {"schema": followed.schema, "redis": redis.url, "mirror": mirror.url, "at": at}
        self.file.write_text(dedent(_FILE.format(**given)))
        self._since = 0

    def add_connector(self) -> None:
        """Capture the database, by the command that a user would give."""
        program = [sys.executable, "-m", "mainstem", "connector", "add", "shop", self._followed.url]
        options = ["--tables", ",".join(f"{self._followed.schema}.{each}" for each in "ab")]
        options += ["--set", "heartbeat_ms=100", "--at", self.server.address]
        output_of([*program, *options, *self._followed.options])

    def kill_server(self) -> None:
        """Kill -9 the server, and the connector with it; start it again."""
        self.server.restart()

    def kill_redis(self) -> None:
        """Kill -9 the cache, and start it again."""
        with self.without_redis():
            pass

    def kill_mirror(self) -> None:
        """Kill -9 the database of the mirror, and start it again."""
        with self.without_mirror():
            pass

    @contextmanager
    def without_redis(self) -> Iterator[None]:
        """Kill -9 the cache; it comes back when the block ends."""
        self._redis.kill()
        yield
        self._redis.start()

    @contextmanager
    def without_mirror(self) -> Iterator[None]:
        """Kill -9 the database of the mirror; it comes back when the block ends."""
        self._mirror.kill()
        yield
        self._mirror.start()

    @contextmanager
    def sinks_killed_in_a_batch(self) -> Iterator[None]:
        """Kill -9 cache and mirror, each while it is being written to; they come back at once."""
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(self._kill_redis_in_a_batch)]
            both += [pool.submit(self._kill_mirror_in_a_batch)]
            yield
            for each in both:
                each.result(_SPARK_S)

    def _kill_redis_in_a_batch(self) -> None:
        # A batch of so many rows is written in parts; one key is there before.
        with Redis.from_url(self._redis.url, protocol=2) as cache:
            _soon(lambda: cache.dbsize() > 1)
        self.kill_redis()

    def _kill_mirror_in_a_batch(self) -> None:
        inserting = (
            "SELECT pid FROM pg_stat_activity "
            "WHERE state <> 'idle' AND query LIKE 'INSERT INTO \"a\"%'"
        )
        found: list[tuple[int]] = []

        def inserts() -> bool:
            found[:] = connection.execute(inserting).fetchall()
            return bool(found)

        with self._mirror.connect() as connection:
            _soon(inserts)
        with self.without_mirror():
            # It would finish its transaction.
            for (pid,) in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def catch_up(self) -> None:
        """Wait until topics have all that the database has."""
        end = self._followed.last()

        def said() -> str:
            return f"not caught up: {self.server.said}"

        wait_until(lambda: has_reached(self.server, end), said)

    def wait_for_snapshot(self) -> None:
        """Wait until all rows were read that were there before; the history begins by then."""
        wait_until(lambda: has_reached(self.server, (0,)), "the snapshot does not end")
        self._since = self._followed.audited()

    def ends(self) -> dict[str, int]:
        """Return for each table how many events its topic has."""
        settings = {"bootstrap.servers": self.server.address, "group.id": "ends", **QUICK}
        consumer = Consumer(settings)
        try:
            tails = {}
            for name in set(TOPIC.values()):
                topic = self.topic(name)
                known = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
                places = [TopicPartition(topic, each) for each in known]
                edges = [consumer.get_watermark_offsets(each, PATIENCE_S) for each in places]
                tails[name] = sum(tail for _, tail in edges)
            return {table: tails[name] for table, name in TOPIC.items()}
        finally:
            consumer.close()

    def topic(self, name: str) -> str:
        """Return the topic of a table of the database."""
        return f"shop.{self._followed.schema}.{name}"

    def check_equal(self) -> None:
        """Compare all that is derived with the database."""
        tables = {each.name: each.sink for each in p.load(self.file).tables}
        for name in ("lake", "found", "cached", "mirror"):
            self._check_rows(name, rows_of(tables[name]), "a")
        past = rows_of(tables["history"])
        self._check_rows("history", [each for each in past if each["valid_to"] is None], "b")
        flaws = history_flaws(past, self._followed, self._since)
        told = [f"{key} {flaw}: {self._events('b', key)}" for key, flaw in list(flaws.items())[:3]]
        assert not flaws, f"history since {self._since}, {len(flaws)} keys are wrong: {told}"

    def _check_rows(self, name: str, rows: Rows, table: str) -> None:
        found = {(each["id"], each["v"], each["note"], each["big"]) for each in rows}
        wanted = set(self._followed.rows(table))
        keys = {row[0] for row in found ^ wanted}
        assert not keys, (
            f"{name}: keys {sorted(keys)} differ; it has {sorted(found - wanted)[:3]!r:.500}, "
            f"the database {sorted(wanted - found)[:3]!r:.500}; "
            f"events of the first: {self._events(table, min(keys))}"
        )
        assert len(rows) == len(wanted), name

    def _events(self, table: str, key: int) -> list[str]:
        """Return what the topic says of a key: positions, operations and versions."""
        told = []
        for event in events_of(self.server.address, self.topic(table)):
            value = json.loads(event.value or b"null")
            if value is None or (event.key and json.loads(event.key) != {"id": key}):
                continue
            at = {name: value["source"].get(name) for name in ("lsn", "file", "pos", "row", "seq")}
            place = ":".join(str(each) for each in at.values() if each is not None)
            version = (value["after"] or {}).get("v")
            told.append(f"{event.offset} {value['op']} at {place}: v={version}")
        return told


def _soon(happens: Callable[[], bool]) -> None:
    """Return at once when something happens; Spark may take a while to come to it."""
    end = time.monotonic() + _SPARK_S
    while not happens():
        assert time.monotonic() < end, "it did not happen"


def rows_of(sink: Sink) -> Rows:
    """Return what a sink holds."""
    rows = sink.read()
    assert rows is not None, sink.place
    found: Rows = rows.to_pylist()
    return found


@contextmanager
def derived(followed: Followed, at: Path) -> Iterator[Derived]:
    """Start a server and the sinks."""
    (at / "redis").mkdir()
    with (
        Mortal(at / "data") as server,
        killable_redis(at / "redis") as redis,
        database() as mirror,
    ):
        yield Derived(followed, server, redis, mirror, at)
