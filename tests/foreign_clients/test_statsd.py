"""StatsD clients, unmodified: what they send is in the log, and what was lost is known."""

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from datadog.dogstatsd.base import DogStatsd
from prometheus_client.parser import text_string_to_metric_families
from statsd import StatsClient  # type: ignore[import-untyped]
from tests.heads.admin.web import get
from tests.heads.server_process import Process
from tests.in_process_server import server
from tests.loop_thread import PATIENCE_S

import mainstem
from mainstem.core.event import Event
from mainstem.core.topic_settings import Overload
from mainstem.heads.statsd.settings import StatsdSettings
from mainstem.node.config import Config
from mainstem.node.server import Running

SETTINGS = StatsdSettings(listen="127.0.0.1:0", flush_ms=200)
CONFIG = msgspec.structs.replace(Config(), heads=Config().heads | {"statsd": SETTINGS})


Value = dict[str, object]


class Seen(NamedTuple):
    """A server that takes StatsD, and what is in its topics."""

    running: Running

    @property
    def port(self) -> int:
        return self.running.addresses["statsd"].port

    def wait_for(
        self, topic: str, wanted: Callable[[dict[str, object]], bool]
    ) -> dict[str, object]:
        """Return the first event of a topic that is as wanted."""
        with mainstem.connect(str(self.running.kafka)) as stem:
            events = stem.subscribe(topic)
            while (event := events.poll(PATIENCE_S)) is not None:
                value: Value = event.json()
                assert event.key == str(value["name"]).encode()
                if wanted(value):
                    return value
        raise AssertionError("no such event came")

    def metric(self, name: str) -> float:
        page = get(str(self.running.admin), "/metrics").text
        return sum(
            sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == name
        )


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with server(tmp_path_factory.mktemp("data"), config=CONFIG) as running:
        yield Seen(running)


def test_what_the_statsd_client_sends_is_sampled_and_summed_up(seen: Seen) -> None:
    with closing(StatsClient("127.0.0.1", seen.port, prefix="shop")) as client:
        client.incr("orders", 3)
        client.timing("page", 320)
        client.gauge("basket", 7)
        client.gauge("basket", -2, delta=True)
        client.set("visitors", "ann")
        with client.pipeline() as several:
            several.incr("packed", 1)
            several.incr("packed", 1)

    order = seen.wait_for("statsd.samples", lambda it: it["name"] == "shop.orders")
    orders = seen.wait_for("statsd.aggregates", lambda it: it["name"] == "shop.orders")
    page = seen.wait_for("statsd.aggregates", lambda it: it["name"] == "shop.page")
    basket = seen.wait_for(
        "statsd.aggregates", lambda it: it["name"] == "shop.basket" and it["value"] == 5
    )
    packed = seen.wait_for("statsd.aggregates", lambda it: it["name"] == "shop.packed")

    assert order == {"name": "shop.orders", "type": "counter", "value": 3.0}
    assert (orders["type"], orders["count"]) == ("counter", 3.0)
    assert (page["mean"], page["percentiles"]) == (
        320.0,
        {"p50": 320.0, "p90": 320.0, "p95": 320.0, "p99": 320.0},
    )
    assert basket["type"] == "gauge"
    assert packed["count"] == 2.0


def test_what_the_datadog_client_sends_has_its_tags(seen: Seen) -> None:
    client = DogStatsd(
        host="127.0.0.1", port=seen.port, disable_telemetry=True, constant_tags=["env:test"]
    )
    client.increment("dog.jobs", 2, tags=["queue:fast"])
    client.histogram("dog.size", 12.5)
    client.distribution("dog.spread", 1)
    client.flush()

    jobs = seen.wait_for("statsd.samples", lambda it: it["name"] == "dog.jobs")
    size = seen.wait_for("statsd.aggregates", lambda it: it["name"] == "dog.size")

    assert jobs == {
        "name": "dog.jobs",
        "type": "counter",
        "value": 2.0,
        "tags": ["env:test", "queue:fast"],
    }
    assert (size["type"], size["max"], size["tags"]) == ("histogram", 12.5, ["env:test"])
    client.close_socket()


def test_prometheus_finds_the_aggregates(seen: Seen) -> None:
    with closing(StatsClient("127.0.0.1", seen.port, prefix="scraped")) as client:
        client.incr("orders", 3)
        client.timing("page", 320)
        client.gauge("basket", 7)

    while not seen.metric("statsd_scraped_basket"):
        pass

    assert seen.metric("statsd_scraped_orders_total") == 3
    assert seen.metric("statsd_scraped_page_count_total") == 1
    assert seen.metric("statsd_scraped_page_sum_total") == 320
    assert seen.metric("statsd_scraped_basket") == 7


def test_the_datadog_client_tells_how_many_packets_it_has_sent(tmp_path: Path) -> None:
    with server(tmp_path, config=CONFIG) as running:
        seen, count = Seen(running), 50
        client = DogStatsd(
            host="127.0.0.1",
            port=seen.port,
            disable_buffering=True,
            telemetry_min_flush_interval=0,
        )
        for _ in range(count):
            client.increment("dog.jobs")
        client.close_socket()
        sent = "statsd_datadog_dogstatsd_client_packets_sent_total"
        while seen.metric("statsd_dog_jobs_total") < count:
            pass

        # The telemetry is in the packet after the one that it counts, or in one of its own.
        assert count - 1 <= seen.metric(sent) <= seen.metric("mainstem_statsd_packets_total")


def test_a_bad_line_is_counted_as_a_metric_and_as_an_event(seen: Seen) -> None:
    before = seen.metric("mainstem_statsd_bad_lines_total")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"good:1|c\nno metric at all\n" + b":" * 60_000, ("127.0.0.1", seen.port))

    told = seen.wait_for(
        "statsd.aggregates",
        lambda it: it["name"] == "mainstem.statsd.bad_lines" and it["count"] == 2,
    )

    assert told["type"] == "counter"
    assert seen.metric("mainstem_statsd_bad_lines_total") == before + 2


def test_what_a_full_topic_does_not_take_is_counted_as_lost(tmp_path: Path) -> None:
    with server(tmp_path, config=CONFIG) as running:
        seen = Seen(running)
        running.node.broker.alter_topic(
            "statsd.samples", overload=Overload.DROP_NEWEST, max_backlog=1
        )
        running.node.broker.commit("reader", {("statsd.samples", 0): 0})
        running.node.broker.publish("statsd.samples", [Event(b"{}"), Event(b"{}")])
        with closing(StatsClient("127.0.0.1", seen.port)) as client:
            for _ in range(10):
                client.incr("x")
        seen.wait_for(
            "statsd.aggregates",
            lambda it: it["name"] == "mainstem.statsd.lost_events" and it["count"] != 0,
        )

        assert seen.metric("mainstem_statsd_lost_events_total") > 0


def test_a_server_that_stops_keeps_what_it_received(tmp_path: Path) -> None:
    slow = msgspec.structs.replace(SETTINGS, flush_ms=3_600_000)
    config = msgspec.structs.replace(CONFIG, heads=CONFIG.heads | {"statsd": slow})
    with server(tmp_path, config=config) as running:
        with closing(StatsClient("127.0.0.1", Seen(running).port)) as client:
            client.incr("last", 5)
        Seen(running).wait_for("statsd.samples", lambda it: it["name"] == "last")

    with mainstem.open(tmp_path) as stem:
        found = [event.json() for event in stem.subscribe("statsd.aggregates", follow=False)]

    assert [(it["name"], it["count"]) for it in found if it["name"] == "last"] == [("last", 5.0)]


def test_a_server_that_is_killed_has_the_values_in_its_log(tmp_path: Path) -> None:
    with Process(tmp_path, statsd__listen="127.0.0.1:0", statsd__flush_ms=3_600_000) as process:
        port = int(process.addresses["statsd"].rpartition(":")[2])
        with closing(StatsClient("127.0.0.1", port)) as client:
            client.incr("last", 5)
        with mainstem.connect(process.address) as stem:
            assert stem.subscribe("statsd.samples").poll(PATIENCE_S)
        # Leaving the block kills it with SIGKILL.

    with mainstem.open(tmp_path) as stem:
        found = [event.json() for event in stem.subscribe("statsd.samples", follow=False)]
        sums = list(stem.subscribe("statsd.aggregates", follow=False))

    assert [(it["name"], it["value"]) for it in found] == [("last", 5.0)]
    assert not sums


def test_packets_that_the_kernel_dropped_are_counted(tmp_path: Path) -> None:
    with Process(
        tmp_path, statsd__listen="127.0.0.1:0", statsd__receive_buffer_bytes=4096
    ) as process:
        host, port = process.addresses["statsd"].rsplit(":", 1)
        # A server that stands still reads nothing, so that the buffer runs over.
        process.tell(signal.SIGSTOP)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(1000):
                sender.sendto(b"jobs:1|c", (host, int(port)))
        process.tell(signal.SIGCONT)

        counts: dict[str, float] = {}
        while counts.get("packets", 0) + counts.get("kernel_drops", 0) < 1000:
            page = get(process.admin, "/metrics").text
            counts = {
                sample.name.removeprefix("mainstem_statsd_").removesuffix("_total"): sample.value
                for family in text_string_to_metric_families(page)
                for sample in family.samples
                if sample.name.startswith("mainstem_statsd_")
            }

        assert counts["kernel_drops"] > 0
        assert counts["packets"] + counts["kernel_drops"] == 1000
