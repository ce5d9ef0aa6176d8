"""Concurrent transactional clients see no anomaly, whatever happens to the server meanwhile.

The same clients and the same checker judge Apache Kafka, and servers that are flawed on purpose.
"""

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from bench.apache_kafka import ApacheKafka, missing
from tests.checker.anomalies import Kind, check, forbidden
from tests.checker.corruption import corrupted
from tests.checker.history import History
from tests.checker.nemesis import FAULTS, nemesis
from tests.checker.workload import Workload, amounts
from tests.faults.kafka.test_kafka_kill_transactions import SHOWS_WHAT_WAS_ABORTED
from tests.faults.killable_server import Mortal
from tests.long_runs import seeds

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

SECONDS = 60
BETWEEN_FAULTS = 20
"""How many transactions end before the next fault."""
LEAST = {
    "acknowledged events": 2_000,
    "transactions": 500,
    "processing transactions": 100,
    "aborted transactions": 100,
    "unknown transactions": 1,
    "events read": 8_000,
    "seeks and assignments": 50,
}
LEAST_OF_EACH_FAULT = 5
LEAST_WITHOUT_FAULTS = {
    "acknowledged events": 500,
    "processing transactions": 20,
    "aborted transactions": 20,
    "events read": 2_000,
    "seeks and assignments": 15,
}

LEAST_OF_KAFKA = {
    "acknowledged events": 150,
    "processing transactions": 5,
    "aborted transactions": 5,
    "events read": 500,
}


def has(history: History, least: Mapping[str, int]) -> bool:
    """Tell whether a history has enough of everything."""
    found = amounts(history)
    return all(found[name] >= count for name, count in least.items())


@pytest.mark.parametrize("seed", seeds(1, 1, 60))
def test_there_is_no_anomaly_whatever_happens(tmp_path: Path, seed: int) -> None:
    with nemesis(tmp_path, seed) as it, Workload(it.address, seed) as workload:
        until = time.monotonic() + SECONDS
        while (
            time.monotonic() < until
            or not has(workload.history, LEAST)
            or min(it.faults[name] for name in FAULTS) < LEAST_OF_EACH_FAULT
        ):
            workload.go_on(BETWEEN_FAULTS)
            it.strike(workload.done)
        history = workload.finish()

    assert forbidden(check(history)) == []
    assert workload.wrong == []


def undisturbed(address: str) -> History:
    """Return what clients do while nothing happens."""
    with Workload(address, seed=1) as workload:
        while not has(workload.history, LEAST_WITHOUT_FAULTS):
            workload.go_on(BETWEEN_FAULTS)
        return workload.finish()


def test_every_kind_of_anomaly_is_found_in_a_real_history(tmp_path: Path) -> None:
    with Mortal(tmp_path / "data") as server:
        history = undisturbed(server.address)
    assert forbidden(check(history)) == []

    found = {kind: check(corrupted(history, kind, seed=1)) for kind in Kind}

    assert [kind for kind in Kind if kind not in {each.kind for each in found[kind]}] == []


def test_it_would_be_noticed_if_what_was_aborted_were_seen(tmp_path: Path) -> None:
    with Mortal(tmp_path / "data", flaw=SHOWS_WHAT_WAS_ABORTED) as server:
        history = undisturbed(server.address)

    assert Kind.ABORTED_READ in {each.kind for each in check(history)}


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_apache_kafka_is_judged_alike(tmp_path: Path) -> None:
    server = ApacheKafka(tmp_path)
    server.start()
    try:
        with Workload(server.address, seed=1) as workload:
            for _ in range(3):
                workload.go_on(BETWEEN_FAULTS)
                os.kill(server.pid, signal.SIGSTOP)
                threading.Event().wait(0.5)
                os.kill(server.pid, signal.SIGCONT)
            while not has(workload.history, LEAST_OF_KAFKA):
                workload.go_on(BETWEEN_FAULTS)
            history = workload.finish()
    finally:
        server.stop()

    assert forbidden(check(history)) == []
    assert Kind.LOST_WRITE in {
        each.kind for each in check(corrupted(history, Kind.LOST_WRITE, seed=1))
    }
