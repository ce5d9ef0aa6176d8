"""A mirror, an index, a cache and a history equal the database, with kill -9 of everything.

The pipeline is a process of its own, which is killed with its JVM.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.connectors.mariadb.databases import PASSWORD
from tests.long_runs import LONG, seeds
from tests.pipelines.running.derived import TOPIC, Derived, derived
from tests.pipelines.running.followed import SECRET, Followed, maria_db, postgres, sqlite
from tests.pipelines.running.runs import PATIENCE_S, Runs
from tests.processes import wait_until

pytestmark = [
    pytest.mark.peers,
    pytest.mark.minutes,
    pytest.mark.timeout(7200 if LONG else 1200),
    pytest.mark.usefixtures("own_scratch"),
]

SOURCES = ("postgresql", "mariadb", "sqlite")
ROUNDS = 3 if LONG else 1
"""How often the pipeline is killed; each time starts a JVM."""
STREAM = ("--stream", "--max-rows", "1500", "--conf", "spark.sql.shuffle.partitions=2")


@contextmanager
def source(name: str, at: Path, seed: int) -> Iterator[Followed]:
    with ExitStack() as stack:
        if name == "postgresql":
            yield stack.enter_context(postgres())
        elif name == "mariadb":
            yield stack.enter_context(maria_db())
        else:
            yield stack.enter_context(sqlite(at, seed))


def stream_and_kill(
    everything: Derived, runs: Runs, followed: Followed, chance: random.Random, seed: int
) -> None:
    """Run the pipeline while others are killed, and then it, at moments left to chance."""
    stream = runs.start(*STREAM)
    others: list[Callable[[], None]] = [
        followed.kill,
        everything.kill_server,
        everything.kill_redis,
        everything.kill_mirror,
    ]
    chance.shuffle(others)
    began = {table: runs.batch(table) for table in TOPIC}
    for table in TOPIC:
        wait_until(
            lambda: stream.poll() is not None or runs.batch(table) > began[table],  # noqa: B023
            lambda: f"{table} does not begin: {runs.told()}",  # noqa: B023
            PATIENCE_S,
        )
    with followed.writing(seed) as wait:
        for kill in others:
            wait(chance.randrange(1, 60))
            kill()
        wait(chance.randrange(1, 60))
        runs.kill(stream)


@pytest.mark.parametrize("seed", seeds(1, 1, 20))
@pytest.mark.parametrize("name", SOURCES)
def test_all_that_is_derived_equals_the_database_after_kill_9_of_everything(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, PASSWORD)
    chance = random.Random(seed)
    with source(name, tmp_path, seed) as followed, derived(followed, tmp_path) as everything:
        with followed.writing(seed, emptying=False) as wait:
            wait(10)
            everything.add_connector()
            for _ in range(2):
                # In the middle of the snapshot.
                everything.kill_server()
                wait(chance.randrange(1, 20))
            followed.kill()
            wait(50)
            everything.wait_for_snapshot()
        runs = Runs(everything.file, tmp_path, everything.server.address)
        for number in range(ROUNDS):
            stream_and_kill(everything, runs, followed, chance, seed + 10_000 * (number + 1))
        everything.catch_up()

        runs.run("--batch", *STREAM[1:])

        ends = everything.ends()
        assert {table: runs.read(table, everything.topic(TOPIC[table])) for table in TOPIC} == ends
        everything.check_equal()
