"""A topic as a MoldUDP64 session: what is sent to the group, and what requests are answered."""

import asyncio
import re
import socket
import struct
import sys

import pytest
from tests.broker.brokers import publish
from tests.broker.transactions.transactional_producers import Bank
from tests.client.feeds.relay import joined
from tests.heads.moldudp64.feed_head import TOPIC, broker_with_topic, feeding, new_group
from tests.heads.transport.echo import run, until

from mainstem.auth import Auth, deny_all
from mainstem.broker.broker import Broker
from mainstem.core.errors import InvalidSetting, MainstemError, Unsupported
from mainstem.core.topic_settings import Durability
from mainstem.heads.moldudp64.adapter import NAME
from mainstem.heads.moldudp64.codec import MAX_MESSAGE_BYTES, Packet
from mainstem.heads.moldudp64.feeds import FeedDefinitions, FeedExists
from mainstem.heads.moldudp64.metrics import MISSED, TOO_LARGE
from mainstem.heads.moldudp64.numbering import Mark
from mainstem.heads.moldudp64.publication import Publication
from mainstem.heads.moldudp64.settings import MoldSettings

IP_PKTINFO, IP_RECVTTL = 8, 12
"""In linux/in.h."""
END = Packet("S1", 3, is_end=True)


def test_multicast_stays_in_the_network_by_default() -> None:
    assert MoldSettings().ttl == 1


def words(count: int, first: int = 0) -> list[bytes]:
    return [b"message %d" % each for each in range(first, first + count)]


def test_events_are_numbered_from_one_and_fill_packets() -> None:
    async def scenario() -> None:
        broker = broker_with_topic()
        publish(broker, TOPIC, *words(1000))
        async with feeding(broker, new_group(), max_packet_bytes=500) as feed:
            assert await feed.hears(1000) == words(1000)

            full = [size for size in feed.group.sizes if size > 500 - 14]
            assert max(feed.group.sizes) <= 500
            assert len(full) >= len([it for it in feed.group.packets if it.messages]) - 2
            publish(broker, TOPIC, b"", b"live")
            assert await feed.hears(1002) == [*words(1000), b"", b"live"]

    run("uvloop", scenario)


def test_silence_is_filled_with_heartbeats_that_tell_the_next_number() -> None:
    async def scenario() -> None:
        broker = broker_with_topic()
        publish(broker, TOPIC, b"a", b"b")
        async with feeding(broker, new_group(), heartbeat_ms=20) as feed:
            await until(lambda: feed.group.packets.count(Packet("S1", 3)) >= 3)

    run("uvloop", scenario)


def test_a_request_is_answered_with_no_more_than_it_asked_for() -> None:
    async def scenario() -> None:
        broker = broker_with_topic()
        publish(broker, TOPIC, *words(1000))
        async with feeding(broker, new_group()) as feed:
            await feed.hears(1000)
            feed.ask(5, 3)
            assert await feed.answers(1) == [Packet("S1", 5, tuple(words(3, 4)))]
            feed.ask(1, 1000)
            packet = (await feed.answers(2))[1]
            assert 1 < len(packet.messages) < 1000
            assert max(feed.peer.sizes) <= 1400
            feed.ask(1000, 10)
            assert (await feed.answers(3))[2].messages == (b"message 999",)
            assert feed.outcomes() == {"answered": 3}

    run("uvloop", scenario)


@pytest.mark.parametrize(
    ("sequence", "session", "outcome"),
    [(3, "S1", "not_yet"), (2**64 - 1, "S1", "not_yet"), (1, "other", "unknown_session")],
)
def test_a_request_without_an_answer_is_counted(sequence: int, session: str, outcome: str) -> None:
    async def scenario() -> None:
        broker = broker_with_topic()
        publish(broker, TOPIC, b"a", b"b")
        async with feeding(broker, new_group()) as feed:
            await feed.hears(2)
            feed.ask(sequence, 1, session)
            await until(lambda: feed.outcomes() == {outcome: 1})
            feed.send(b"GET / HTTP/1.1\r\n\r\n")
            feed.send(b"\0")
            await until(lambda: feed.outcomes().get("malformed") == 2)
            assert feed.peer.packets == []

    run("uvloop", scenario)


def test_an_address_that_asks_too_often_gets_no_more_answers_than_allowed() -> None:
    async def scenario() -> None:
        broker = broker_with_topic()
        publish(broker, TOPIC, *words(10))
        async with feeding(broker, new_group(), requests_per_s=5) as feed:
            await feed.hears(10)
            for _ in range(100):
                feed.ask(1, 10)
            await until(lambda: sum(feed.outcomes().values()) == 100)
            assert 5 <= feed.outcomes()["answered"] < 50
            assert len(await feed.answers(5)) < 50

    run("uvloop", scenario)


def test_who_may_not_read_the_topic_is_not_answered() -> None:
    async def scenario() -> None:
        broker = broker_with_topic()
        publish(broker, TOPIC, b"a")
        async with feeding(broker, new_group(), auth=Auth(authorize=deny_all)) as feed:
            await feed.hears(1)
            feed.ask(1, 1)
            await until(lambda: feed.outcomes() == {"denied": 1})
            assert feed.peer.packets == []

    run("uvloop", scenario)


def test_transactions_leave_no_gaps_between_numbers() -> None:
    group = new_group()

    async def scenario() -> None:
        bank = Bank()
        broker, teller = bank.broker, bank.begin()
        expected: list[bytes] = []
        for each in range(0, 900, 3):
            teller.add(0)
            teller.write(*words(3, each))
            teller.end(committed=each % 2 == 0)
            if each % 2 == 0:
                expected += words(3, each)
        async with feeding(broker, group, feeds=f"S1=t/0@{group}") as feed:
            assert await feed.hears(len(expected)) == expected
        # After a restart there are fewer marks.
        async with feeding(broker, group, feeds=f"S1=t/0@{group}") as feed:
            publish(broker, "t", b"more", partition=0)
            await until(lambda: len(expected) + 1 in feed.group.numbered)
            for number in (1, 100, 333, len(expected)):
                feed.ask(number, 2)
            for packet in await feed.answers(4):
                at = packet.sequence - 1
                assert list(packet.messages) == [*expected, b"more"][at : at + 2]

    run("uvloop", scenario)


async def broker_with_sent(count: int, group: str) -> Broker:
    """Return a broker whose first messages were sent by a head that has ended."""
    broker = broker_with_topic()
    publish(broker, TOPIC, *words(count))
    async with feeding(broker, group) as feed:
        await feed.hears(count)
    return broker


def test_a_session_goes_on_after_a_restart_with_the_same_numbers() -> None:
    group = new_group()

    async def scenario() -> None:
        broker = await broker_with_sent(10, group)
        publish(broker, TOPIC, *words(5, 10))
        async with feeding(broker, group) as feed:
            await until(lambda: 15 in feed.group.numbered)
            assert {11: b"message 10", 15: b"message 14"}.items() <= feed.group.numbered.items()
            feed.ask(1, 2)
            assert await feed.answers(1) == [Packet("S1", 1, tuple(words(2)))]

    run("uvloop", scenario)


def test_the_end_of_a_session_is_told_and_requests_are_still_answered() -> None:
    group = new_group()

    async def scenario() -> None:
        broker = broker_with_topic()
        publish(broker, TOPIC, b"a", b"b")
        async with feeding(broker, group, heartbeat_ms=20) as feed:
            await feed.hears(2)
            feed.head.end("S1")
            publish(broker, TOPIC, b"after the end")
            await until(lambda: feed.group.packets.count(END) >= 2)
            feed.ask(1, 9)
            assert await feed.answers(1) == [Packet("S1", 1, (b"a", b"b"))]
        async with feeding(broker, group) as feed:
            await until(lambda: END in feed.group.packets)
            assert b"after the end" not in feed.group.numbered.values()

    run("uvloop", scenario)


def test_what_retention_deleted_is_not_answered_and_what_it_kept_is() -> None:
    async def scenario() -> None:
        group = new_group()
        broker = await broker_with_sent(20, group)
        broker.trim(TOPIC, 0, 10)
        async with feeding(broker, group) as feed:
            feed.ask(10, 1)
            await until(lambda: feed.outcomes() == {"deleted": 1})
            feed.ask(11, 1)
            assert await feed.answers(1) == [Packet("S1", 11, (b"message 10",))]

    run("uvloop", scenario)


def test_events_that_retention_deletes_before_they_are_sent_get_no_number_and_are_counted() -> None:
    async def scenario() -> None:
        broker = broker_with_topic()
        publish(broker, TOPIC, *words(10))
        broker.trim(TOPIC, 0, 4)
        async with feeding(broker, new_group()) as feed:
            assert await feed.hears(6) == words(6, 4)
            assert feed.metric(MISSED) == 4
            feed.ask(1, 1)
            assert await feed.answers(1) == [Packet("S1", 1, (b"message 4",))]

    run("uvloop", scenario)


def test_numbers_that_retention_made_unknown_stop_the_feed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # As after kill -9, just before a mark would have been stored.
    monkeypatch.setattr(Publication, "_store_mark", lambda _self, _mark: None)
    group = new_group()

    async def scenario() -> None:
        broker = broker_with_topic()
        publish(broker, TOPIC, *words(10))
        async with feeding(broker, group) as feed:
            await feed.hears(10)
            stored = FeedDefinitions(broker.definitions.open(NAME))
            stored.add_mark("S1", Mark(6, 5), 0)
        broker.trim(TOPIC, 0, 8)
        async with feeding(broker, group) as feed:
            (publication,) = feed.head.publications()
            assert "remove the feed" in publication.failed

    run("uvloop", scenario)
    assert "feed S1 has stopped: retention deleted offsets" in caplog.text


def test_an_event_too_large_for_udp_is_left_out_and_counted() -> None:
    async def scenario() -> None:
        broker = broker_with_topic()
        largest = b"x" * MAX_MESSAGE_BYTES
        publish(broker, TOPIC, b"a", largest, largest + b"x", b"b")
        async with feeding(broker, new_group()) as feed:
            assert await feed.hears(3) == [b"a", largest, b"b"]
            assert feed.metric(TOO_LARGE) == 1
            feed.ask(2, 5)
            feed.ask(3, 5)
            sizes = [[len(it) for it in packet.messages] for packet in await feed.answers(2)]
            assert sizes == [[MAX_MESSAGE_BYTES], [1]]

    run("uvloop", scenario)


def test_two_groups_get_the_same_packets() -> None:
    async def scenario() -> None:
        broker = broker_with_topic()
        first, second = new_group(), new_group()
        publish(broker, TOPIC, *words(100))
        async with feeding(broker, second, feeds=f"S1={TOPIC}/0@{first}+{second}") as feed:
            assert await feed.hears(100) == words(100)

    run("uvloop", scenario)


def test_packets_are_paced() -> None:
    async def scenario() -> None:
        broker = broker_with_topic()
        publish(broker, TOPIC, *words(100))
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with feeding(broker, new_group(), max_packet_bytes=64, packets_per_s=200) as feed:
            await feed.hears(100)
        # Three messages fit into a packet.
        assert loop.time() - began > 0.1

    run("uvloop", scenario)


def test_a_topic_in_memory_is_refused() -> None:
    async def scenario() -> None:
        topic = broker_with_topic(durability=Durability.MEMORY)
        with pytest.raises(Unsupported, match="trades cannot be a feed"):
            async with feeding(topic, new_group()):
                raise AssertionError("it was served")

    run("uvloop", scenario)


def test_a_session_belongs_to_one_partition() -> None:
    async def scenario() -> None:
        broker = broker_with_topic(partitions=2)
        group = new_group()
        async with feeding(broker, group):
            pass
        with pytest.raises(FeedExists, match="session 'S1' is the feed of trades/0"):
            async with feeding(broker, group, feeds=f"S1={TOPIC}/1@{group}"):
                raise AssertionError("it was served")

    run("uvloop", scenario)


def test_a_topic_that_was_created_anew_is_not_the_one_of_the_session() -> None:
    async def scenario() -> None:
        broker = broker_with_topic()
        group = new_group()
        async with feeding(broker, group):
            pass
        broker.delete_topic(TOPIC)
        broker.create_topic(TOPIC)
        with pytest.raises(MainstemError, match=r"another start"):
            async with feeding(broker, group):
                raise AssertionError("it was served")

    run("uvloop", scenario)


@pytest.mark.parametrize(
    ("feeds", "why"),
    [
        ("S1=trades@239.1.1.1:5", "is not SESSION=TOPIC/PARTITION@GROUP:PORT"),
        ("S1=trades/0@127.0.0.1:5", "is no multicast group"),
        ("S1=trades/0@239.1.1.1:0", "is no multicast group"),
        ("ELEVENCHARS=trades/0@239.1.1.1:5", "1 to 10 letters or digits"),
    ],
)
def test_a_bad_feed_setting_is_refused(feeds: str, why: str) -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidSetting, match=re.escape(why)):
            async with feeding(broker_with_topic(), new_group(), feeds=feeds):
                raise AssertionError("it was served")

    run("uvloop", scenario)


@pytest.mark.parametrize("ttl", [MoldSettings().ttl, 3], ids=["default", "three"])
def test_packets_have_the_time_to_live_and_leave_through_the_interface(ttl: int) -> None:
    group = new_group()
    with joined(group) as heard:
        heard.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
        heard.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        heard.setblocking(False)

        async def scenario() -> None:
            broker = broker_with_topic()
            publish(broker, TOPIC, b"a")
            interface = "127.0.0.9"
            async with feeding(broker, group, interface=interface, ttl=ttl) as feed:
                await feed.hears(1)
                _, told, _, sender = heard.recvmsg(2048, 1024)
            found = {kind: data for _, kind, data in told}
            assert int.from_bytes(found[socket.IP_TTL], sys.byteorder) == ttl
            arrived_at, *_ = struct.unpack("=I4s4s", found[IP_PKTINFO])
            assert socket.if_indextoname(arrived_at) == "lo"
            assert sender[0] == interface

        run("uvloop", scenario)
