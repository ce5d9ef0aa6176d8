"""Connected stems: servers that are unreachable, restart, or are an Apache Kafka."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.in_process_server import serving
from tests.leaked_clients import clients_left, kafka_clients

import mainstem
from mainstem.core.errors import Closed, InvalidSetting, Unreachable

NOBODY = "127.0.0.1:1"
PATIENCE_S = 30


def test_nobody_at_the_address_is_told_at_once_with_what_to_do() -> None:
    began = time.monotonic()

    with pytest.raises(Unreachable, match="mainstem serve") as refused:
        mainstem.connect(NOBODY)

    assert refused.value.address == NOBODY
    assert refused.value.retriable
    assert time.monotonic() - began < 2


def test_somebody_who_never_answers_is_told_in_time(silent: str) -> None:
    began = time.monotonic()

    with pytest.raises(Unreachable):
        mainstem.connect(silent, timeout_s=1)

    assert time.monotonic() - began < 5


@pytest.mark.parametrize("address", ["", "localhost", "localhost:", ":9092", "host:99999", "a:b"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidSetting, match="host:port"):
        mainstem.connect(address)


@pytest.mark.parametrize("setting", ["group_id", "partitioner", "bootstrap_servers"])
def test_settings_that_would_break_a_promise_are_refused(setting: str) -> None:
    with pytest.raises(InvalidSetting, match="cannot be set"):
        mainstem.connect(NOBODY, timeout_s=1, **{setting: "x"})


def test_a_server_that_is_gone_is_told_by_every_deed_in_time(tmp_path: Path) -> None:
    with serving(tmp_path) as address:
        stem = mainstem.connect(address, timeout_s=1)
        stem.topics.create("n", partitions=1)
        stem.publish("n", 1)
        alone, member = stem.subscribe("n"), stem.subscribe("n", group="g", commit="manual")
        assert alone.poll(timeout=30)
        assert member.poll(timeout=30)

    for deed in (
        lambda: stem.publish("n", 2),
        lambda: stem.publish_many("n", [2, 3]),
        stem.topics.list,
        stem.groups.list,
        lambda: alone.poll(timeout=20),
        lambda: member.poll(timeout=20),
        member.commit,
    ):
        began = time.monotonic()
        with pytest.raises(Unreachable):
            deed()
        assert time.monotonic() - began < 8
    stem.close()


def test_a_server_that_comes_back_is_used_again(tmp_path: Path) -> None:
    with serving(tmp_path) as address:
        stem = mainstem.connect(address)
        stem.topics.create("n", partitions=1)
        events = stem.subscribe("n")
        stem.publish("n", 1)
        assert events.poll(timeout=30)

    with serving(tmp_path, int(address.rpartition(":")[2])):
        position = stem.publish("n", 2)
        event = events.poll(timeout=30)

        assert position.offset == 1
        assert event is not None
        assert event.position == position
        stem.close()


def test_who_reads_from_the_tail_reads_all_of_a_topic_of_a_pattern_that_is_made_again(
    kafka: str,
) -> None:
    with mainstem.connect(kafka) as stem:
        stem.topics.create("again.eu", partitions=1)
        stem.publish_many("again.eu", range(10))
        events = stem.subscribe("again.*", start="latest")
        stem.publish("again.eu", 10)
        assert events.poll(timeout=30)

        stem.topics.delete("again.eu")
        stem.topics.create("again.eu", partitions=1)
        stem.publish("again.eu", 11)
        event = events.poll(timeout=30)

        assert event is not None
        assert (event.json(), event.offset) == (11, 0)


def test_a_closed_stem_says_so(kafka: str) -> None:
    stem = mainstem.connect(kafka)
    stem.topics.create("closing", partitions=1)
    events = stem.subscribe("closing")
    thread = threading.Thread(target=lambda: list(events))
    thread.start()

    stem.close()
    thread.join(30)

    assert not thread.is_alive(), "closing the stem ends the wait"
    for deed in (lambda: stem.publish("closing", 1), stem.topics.list, stem.groups.list):
        with pytest.raises(Closed):
            deed()


def test_many_threads_publish_through_one_stem(kafka: str) -> None:
    with mainstem.connect(kafka) as stem:
        stem.topics.create("threads", partitions=1, durability="disk")
        threads = [
            threading.Thread(target=lambda: [stem.publish("threads", n) for n in range(50)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

        assert stem.topics.show("threads").events == 200


def test_what_a_program_opened_others_read_through_the_server(tmp_path: Path) -> None:
    with mainstem.open(tmp_path) as stem:
        stem.topics.create("n", partitions=2, retention_ms=1000)
        stem.publish_many("n", range(10), partition=1)
        shown = stem.topics.show("n")
        assert len(list(stem.subscribe("n", group="g", follow=False))) == 10

    with serving(tmp_path) as address, mainstem.connect(address) as stem:
        again = stem.topics.show("n")

        assert (again.id, again.settings) == (shown.id, shown.settings)
        assert [part.tail for part in again.partitions] == [0, 10]
        assert again.size_bytes is None
        assert stem.groups.show("g").lag == 0
        assert list(stem.subscribe("n", group="g", follow=False)) == []


def test_the_kafka_client_is_loaded_by_connect_alone() -> None:
    code = (
        "import sys, mainstem; mainstem.open(':memory:').publish('n', 1);"
        "sys.exit('confluent_kafka' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_stem_that_was_closed_has_let_go_of_its_connections(tmp_path: Path) -> None:
    before = kafka_clients()
    with serving(tmp_path) as address:
        stem = mainstem.connect(address)
        stem.publish("n", 1)
        list(stem.subscribe("n", group="g", follow=False))
        open_ones = kafka_clients()

        stem.close()

        assert open_ones > before
        assert clients_left(before, PATIENCE_S) == 0
        with pytest.raises(Closed):
            stem.topics.list()
